//! Fetching cache lines before they are needed.

use core::arch::asm;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// To be read soon.
#[inline(always)]
pub fn to_read<T>(at: *const T) {
    // SAFETY: SSE is part of x86-64, and a prefetch accesses nothing.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// To be written soon.
#[inline(always)]
pub fn to_write<T>(at: *const T) {
    // SAFETY: a prefetch accesses nothing (where the processor does not know this one, it does
    // nothing).
    unsafe {
        asm!("prefetchw byte ptr [{}]", in(reg) at, options(nostack, preserves_flags));
    }
}
