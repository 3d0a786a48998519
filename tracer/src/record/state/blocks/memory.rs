//! Vectors of millions of entries, of which the first is none.

use std::ffi::c_void;

use rustix::mm::{Advice, madvise};

/// Adds an element. Its number: from 1.
#[inline]
pub(super) fn push<T: Copy>(elements: &mut Vec<T>, element: T) -> u32 {
    if elements.is_empty() {
        elements.push(element);
    }
    if elements.len() == elements.capacity() {
        reserve(elements);
    }
    elements.push(element);
    (elements.len() - 1) as u32
}

/// Doubles the room, in huge pages once it is large: look-ups are all over it, and with small pages
/// most would miss the TLB too.
#[cold]
pub(super) fn reserve<T>(elements: &mut Vec<T>) {
    const HUGE: usize = 2 << 20;
    elements.reserve(elements.len().max(16));
    let (start, bytes) = (elements.as_mut_ptr() as usize, elements.capacity() * size_of::<T>());
    let (first, end) = (start.next_multiple_of(HUGE), (start + bytes) / HUGE * HUGE);
    if first < end {
        // SAFETY: whole pages of memory that is ours; nothing in it changes (madvise(2)). Where it
        // is refused, small pages do.
        let _ = unsafe { madvise(first as *mut c_void, end - first, Advice::LinuxHugepage) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_from_one() {
        let mut elements = Vec::new();
        for number in 1..=1_000_000 {
            assert_eq!(push(&mut elements, u64::from(number)), number);
        }
        assert!(elements.iter().copied().skip(1).eq(1..=1_000_000));
    }
}
