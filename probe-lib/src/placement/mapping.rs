//! A mapping for a block: aligned, with a page behind it that no one can touch, so that its pages are
//! its own.

use memtrace_wire::placement::Tier;

use super::{budget, tier};
use crate::sys::{self, syscall};

/// A block's memory.
#[derive(Clone, Copy)]
pub struct Mapping {
    /// Where it begins.
    pub start: usize,
    /// Its bytes: whole pages.
    pub length: usize,
    /// Where it was made.
    pub tier: Tier,
    /// How many of its bytes, from the first on, count as those of the fast or the middle tier.
    pub fast: usize,
}

/// The length of a block's mapping; `None` if there is none that long.
pub fn length(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(sys::page())
}

impl Mapping {
    /// A new one, all zeroes, aligned to a power of two, a page at least; and the errno of what the kernel refused, or 0. `None` if it cannot be
    /// had.
    pub fn create(length: usize, tier: Tier, alignment: usize) -> Option<(Mapping, i32)> {
        let reserved = length.checked_add(alignment)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe {
            let arguments = [0, reserved, libc::PROT_NONE as usize, flags as usize, usize::MAX, 0];
            syscall(libc::SYS_mmap, arguments)
        };
        if base < 0 {
            return None;
        }
        let (base, end) = (base as usize, base as usize + reserved);
        let start = (base + alignment - 1) & !(alignment - 1);
        unmap(base, start - base);
        let guard_end = start + length + sys::page();
        unmap(guard_end, end.saturating_sub(guard_end));
        let mapping = Mapping { start, length, tier, fast: budget::share(tier, length) };
        if !mapping.make_accessible() {
            unmap(start, length + sys::page());
            return None;
        }
        Some((mapping, tier::choose(tier, start, length)))
    }

    fn make_accessible(&self) -> bool {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // SAFETY: of the mapping that was just made.
        unsafe { syscall(libc::SYS_mprotect, [self.start, self.length, protection, 0, 0, 0]) == 0 }
    }

    /// Unmaps it, with the page behind it, and gives its bytes back.
    pub fn release(self) {
        unmap(self.start, self.length + sys::page());
        budget::give_back(self.tier, self.fast);
    }
}

fn unmap(start: usize, length: usize) {
    if length > 0 {
        // SAFETY: part of a mapping of our own that no block lies in.
        unsafe { syscall(libc::SYS_munmap, [start, length, 0, 0, 0, 0]) };
    }
}
