//! `errno` is the program's.

/// Does what is not the program's: `errno` stays as it is.
#[inline(always)]
pub fn keeping_errno<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the calling thread's errno.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let result = work();
        *errno = before;
        result
    }
}
