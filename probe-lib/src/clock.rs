//! The clock that stamps come from: the processor's counter, or the kernel's.

use core::sync::atomic::{AtomicU32, Ordering};

use memtrace_wire::arch::counter;
use memtrace_wire::layout::CLOCK_MONOTONIC;

use crate::sys;

static CLOCK: AtomicU32 = AtomicU32::new(0);

/// Which clock stamps come from ([`memtrace_wire::layout::CLOCK_COUNTER`] or monotonic).
pub fn set(clock: u32) {
    CLOCK.store(clock, Ordering::Relaxed);
}

/// A stamp.
#[inline(always)]
pub fn stamp() -> u64 {
    if CLOCK.load(Ordering::Relaxed) == CLOCK_MONOTONIC {
        return sys::monotonic_ns();
    }
    counter::stamp()
}
