//! Masks of signals and handlers, which rustix leaves to the C library.

use std::mem::zeroed;
use std::ptr::{null, null_mut};

/// Leaves signals to the main thread.
pub fn block() {
    // SAFETY: the set lives on the stack.
    unsafe {
        let mut all = zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, null_mut());
    }
}

/// True if the process ignores a signal, as it does after nohup(1) for SIGHUP.
pub fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeroes is a valid sigaction; the call only writes to it.
    let current = unsafe {
        let mut current: libc::sigaction = zeroed();
        libc::sigaction(signal, null(), &mut current);
        current
    };
    current.sa_sigaction == libc::SIG_IGN
}

/// Runs a handler at a signal.
///
/// # Safety
/// The handler does only what is async-signal-safe (signal-safety(7)).
pub unsafe fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: no flags and an empty mask are a valid sigaction; the caller vouches for the handler.
    unsafe {
        let mut new: libc::sigaction = zeroed();
        new.sa_sigaction = handler as *const () as usize;
        libc::sigaction(signal, &new, null_mut());
    }
}
