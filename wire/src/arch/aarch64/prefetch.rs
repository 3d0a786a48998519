//! Fetching cache lines before they are needed.

use core::arch::asm;

/// To be read soon.
#[inline(always)]
pub fn to_read<T>(at: *const T) {
    // SAFETY: a prefetch accesses nothing.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags)) };
}

/// To be written soon.
#[inline(always)]
pub fn to_write<T>(at: *const T) {
    // SAFETY: a prefetch accesses nothing.
    unsafe { asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, preserves_flags)) };
}
