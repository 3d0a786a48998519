//! The processor's counter of time, which stamps come from: the time stamp counter.

use core::arch::x86_64::_rdtsc;

/// What traces call it.
pub const NAME: &str = "tsc";

/// A stamp. Plain `rdtsc`, unfenced: a late stamp is repaired by the tracer's pairing, a fence on
/// every event would cost more than the rest of it.
#[inline(always)]
pub fn stamp() -> u64 {
    // SAFETY: every x86-64 has rdtsc.
    unsafe { _rdtsc() }
}

/// True if the counter runs at one rate on all cores, by what /proc/cpuinfo says.
pub fn is_steady(about: &str) -> bool {
    about.contains(" constant_tsc") && about.contains(" nonstop_tsc")
}

/// Ticks in about ten microseconds: how far a stamp may be ahead of the store that announced it.
#[inline]
pub fn margin() -> u64 {
    50_000
}

/// Ticks in ten milliseconds, more or less.
#[inline]
pub fn patience() -> u64 {
    1 << 25
}
