//! How a program restricts the system calls that it may make.

use core::ffi::c_int;

use crate::connection::process;
use crate::{next, sandbox};

/// prctl(2): how a program installs a filter, or prepares to. Variadic in C; arguments that were
/// not passed are registers with anything in them, which the kernel does not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    if matches!(option, libc::PR_SET_SECCOMP | libc::PR_SET_NO_NEW_PRIVS) {
        process::prepare_for_filter();
        sandbox::expect();
    }
    // SAFETY: the program's call, passed on.
    unsafe { next::prctl(option, a, b, c, d) }
}
