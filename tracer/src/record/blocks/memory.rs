//! Memory as tables of millions of entries want it from the kernel.

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// `N` numbers, 0 where nothing was written; there they take no memory. (An allocator may give memory that was used
/// before, and clears all of it then.)
#[derive(Debug, Default)]
pub(super) struct Zeroed<const N: usize> {
    /// Mapped when first written.
    first: Option<NonNull<u32>>,
}

// SAFETY: it owns its memory, as a vector does.
unsafe impl<const N: usize> Send for Zeroed<N> {}

impl<const N: usize> Zeroed<N> {
    const BYTES: usize = N * size_of::<u32>();

    /// The number at `at`, which is taken modulo `N`, a power of two.
    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> u32 {
        const { assert!(N.is_power_of_two()) };
        // SAFETY: `N` numbers are mapped.
        self.first.map_or(0, |first| unsafe { first.add(at & (N - 1)).read() })
    }

    pub(super) fn set(&mut self, at: usize, number: u32) {
        let first = *self.first.get_or_insert_with(Zeroed::<N>::map);
        // SAFETY: `N` numbers are mapped, and nobody else has them.
        unsafe { first.add(at & (N - 1)).write(number) };
    }

    fn map() -> NonNull<u32> {
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: new memory.
        let memory = unsafe { libc::mmap(null_mut(), Self::BYTES, access, flags, -1, 0) };
        let memory = NonNull::new(memory).filter(|memory| memory.as_ptr() != libc::MAP_FAILED);
        memory.unwrap_or_else(|| handle_alloc_error(Layout::new::<[u32; N]>())).cast()
    }
}

impl<const N: usize> Drop for Zeroed<N> {
    fn drop(&mut self) {
        if let Some(first) = self.first {
            // SAFETY: mapped with this length, and nobody looks at it any more.
            unsafe { libc::munmap(first.as_ptr().cast(), Self::BYTES) };
        }
    }
}

/// Makes room for another element.
#[inline(always)]
pub(super) fn reserve_one<T>(elements: &mut Vec<T>) {
    if elements.len() == elements.capacity() {
        reserve(elements);
    }
}

/// Doubles the room, in huge pages once it is large: look-ups are all over it, and with small pages most would miss the
/// TLB too.
#[cold]
pub(super) fn reserve<T>(elements: &mut Vec<T>) {
    const HUGE: usize = 2 << 20;
    elements.reserve(elements.len().max(16));
    let (start, bytes) = (elements.as_mut_ptr() as usize, elements.capacity() * size_of::<T>());
    let (first, end) = (start.next_multiple_of(HUGE), (start + bytes) / HUGE * HUGE);
    if first < end {
        // SAFETY: whole pages of memory that is ours; nothing in it changes (madvise(2)). Where it is refused, small
        // pages do.
        unsafe { libc::madvise(first as *mut c_void, end - first, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zero_where_nothing_was_written() {
        let mut numbers = Zeroed::<4096>::default();
        assert_eq!(numbers.get(7), 0);
        numbers.set(7, 3);
        assert_eq!((numbers.get(6), numbers.get(7), numbers.get(4096 + 7)), (0, 3, 3));
    }

    #[test]
    fn makes_room() {
        let mut elements = Vec::new();
        for number in 0..1_000_000u64 {
            reserve_one(&mut elements);
            elements.push(number);
        }
        assert!(elements.iter().copied().eq(0..1_000_000));
    }
}
