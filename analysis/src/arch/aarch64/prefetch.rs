//! Fetching cache lines before they are needed.

use core::arch::asm;

/// To be read soon.
#[inline(always)]
pub fn to_read<T>(of: &T) {
    // SAFETY: a prefetch accesses nothing.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) of, options(nostack, preserves_flags)) };
}
