//! Words in shared memory that a thread sleeps on (futex(2)). Not private ones: the other side is
//! another process.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

/// Wakes the thread that sleeps on the word.
pub fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, Flags::empty(), 1);
}

/// Sleeps as long as the word is `value`, until another thread wakes it or this much time is over.
pub fn wait(word: &AtomicU32, value: u32, most: Duration) {
    let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    let _ = futex::wait(word, Flags::empty(), value, Some(&most));
}
