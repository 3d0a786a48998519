//! The clock that stamps come from: the processor's time stamp counter, or the kernel's.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU32, Ordering};

use memtrace_wire::layout::CLOCK_MONOTONIC;

use crate::sys;

static CLOCK: AtomicU32 = AtomicU32::new(0);

/// Which clock stamps come from ([`memtrace_wire::layout::CLOCK_TSC`] or monotonic).
pub fn set(clock: u32) {
    CLOCK.store(clock, Ordering::Relaxed);
}

/// A stamp. Plain `rdtsc`, unfenced: a late stamp is repaired by the tracer's pairing, a fence on
/// every event would cost more than the rest of it.
#[inline(always)]
pub fn stamp() -> u64 {
    if CLOCK.load(Ordering::Relaxed) == CLOCK_MONOTONIC {
        return sys::monotonic_ns();
    }
    // SAFETY: every x86-64 has rdtsc.
    unsafe { _rdtsc() }
}
