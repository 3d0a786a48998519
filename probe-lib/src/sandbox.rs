//! Whether a filter decides which system calls the process may make (seccomp(2)). An unusual one might end it, so
//! the probe then makes none that it can do without.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::{next, sys};

static FILTERED: AtomicBool = AtomicBool::new(false);

/// True if there may be a filter.
pub fn is_filtered() -> bool {
    FILTERED.load(Ordering::Relaxed)
}

/// Looks whether the process was started with one.
pub fn look() {
    if sys::has_filter() {
        FILTERED.store(true, Ordering::Relaxed);
    }
}

/// prctl(2): how a program installs a filter, or prepares to. Variadic in C; arguments that were not passed are
/// registers with anything in them, which the kernel does not look at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    if matches!(option, libc::PR_SET_SECCOMP | libc::PR_SET_NO_NEW_PRIVS) {
        FILTERED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the program's call, passed on.
    unsafe { next::prctl(option, a, b, c, d) }
}
