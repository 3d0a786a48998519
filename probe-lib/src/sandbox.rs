//! Whether a filter decides which system calls the process may make (seccomp(2)). An unusual one
//! might end it, so the probe then makes only those that it needs.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

static FILTERED: AtomicBool = AtomicBool::new(false);
/// It has come, or may have, since the process has connected to the tracer.
static LATER: AtomicBool = AtomicBool::new(false);

/// True if there may be a filter.
pub fn is_filtered() -> bool {
    FILTERED.load(Ordering::Relaxed)
}

/// Notes one that the process was started with. One that it is about to install is still expected.
pub fn find() {
    if sys::has_filter() {
        FILTERED.store(true, Ordering::Relaxed);
    }
}

/// True if the process may connect to the tracer again: a container's filter has let it do so once.
pub fn lets_connect() -> bool {
    !LATER.load(Ordering::Relaxed) && (is_filtered() || !sys::has_filter())
}

/// There may be one from now on.
pub fn expect() {
    LATER.store(true, Ordering::Relaxed);
    FILTERED.store(true, Ordering::Relaxed);
}
