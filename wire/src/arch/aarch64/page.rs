//! Pages of memory.

use core::ffi::c_ulong;
use core::sync::atomic::{AtomicU64, Ordering};

/// Kept here once it is known.
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of a page: 4, 16 or 64 KiB, as the kernel was built.
#[inline]
pub fn bytes() -> u64 {
    match BYTES.load(Ordering::Relaxed) {
        0 => find(),
        known => known,
    }
}

#[cold]
fn find() -> u64 {
    /// Of the auxiliary vector (linux/auxvec.h).
    const AT_PAGESZ: c_ulong = 6;
    unsafe extern "C" {
        /// getauxval(3): reads what the kernel has put above the stack.
        fn getauxval(kind: c_ulong) -> c_ulong;
    }
    // SAFETY: of the C library that every user of this crate is linked with.
    let bytes = unsafe { getauxval(AT_PAGESZ) };
    BYTES.store(bytes, Ordering::Relaxed);
    bytes
}
