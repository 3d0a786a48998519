//! Fetching cache lines before they are needed.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// To be read soon.
#[inline(always)]
pub fn to_read<T>(of: &T) {
    // SAFETY: SSE is part of x86-64, and a prefetch accesses nothing.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(of).cast()) };
}
