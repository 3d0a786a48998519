//! A lock that is given up on rather than waited for: what it guards is a matter of speed alone.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::connection::process;
use crate::{sandbox, sys};

/// Times that another thread is let go first.
const PATIENCE: u32 = 1_000;

/// A value that one thread at a time has.
pub struct Lock<T> {
    taken: AtomicBool,
    /// It was given up on: who took it may have jumped out of a signal handler. It is tried once, from
    /// then on, until it is free again.
    given_up: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `taken` lets in one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Free.
    pub const fn new(value: T) -> Lock<T> {
        Lock {
            taken: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Works with the value, unless another thread does for long, or did when this child was forked.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if process::is_forked_copy() {
            return None;
        }
        let mut patience = if self.given_up.load(Ordering::Relaxed) { 0 } else { PATIENCE };
        while self.taken.swap(true, Ordering::Acquire) {
            if patience == 0 {
                self.given_up.store(true, Ordering::Relaxed);
                return None;
            }
            patience -= 1;
            // A filter might end the program for a system call.
            if sandbox::is_filtered() { core::hint::spin_loop() } else { sys::sched_yield() }
        }
        self.given_up.store(false, Ordering::Relaxed);
        // SAFETY: this thread has just taken the lock.
        let result = work(unsafe { &mut *self.value.get() });
        self.taken.store(false, Ordering::Release);
        Some(result)
    }
}
