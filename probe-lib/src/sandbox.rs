//! Whether a filter decides which system calls the process may make (seccomp(2)). An unusual one
//! might end it, so the probe then makes only those that it needs.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

static FILTERED: AtomicBool = AtomicBool::new(false);

/// True if there may be a filter.
pub fn is_filtered() -> bool {
    FILTERED.load(Ordering::Relaxed)
}

/// Notes whether the process was started with one.
pub fn find() {
    if sys::has_filter() {
        expect();
    }
}

/// There may be one from now on.
pub fn expect() {
    FILTERED.store(true, Ordering::Relaxed);
}
