//! Words in shared memory that somebody sleeps on (futex(2)). Not private ones: the other side is another process.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Wakes whoever sleeps on the word.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word is valid.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// Sleeps as long as the word holds `value`, until somebody wakes it or so much time is over.
pub fn wait(word: &AtomicU32, value: u32, most: Duration) {
    let most = libc::timespec { tv_sec: most.as_secs() as libc::time_t, tv_nsec: most.subsec_nanos().into() };
    // SAFETY: the word and the timeout are valid.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const most) };
}
