//! The processor's counter of time, which stamps come from: the generic timer's virtual count.

use core::arch::asm;

/// What traces call it.
pub const NAME: &str = "cntvct";

/// A stamp. No barrier before it, as on x86-64: the processor may read the counter before it has
/// executed what comes before, by as many instructions as it looks ahead, which is within the
/// [`margin`].
#[inline(always)]
pub fn stamp() -> u64 {
    let stamp: u64;
    // SAFETY: Linux lets programs read it.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) stamp, options(nomem, nostack, preserves_flags)) };
    stamp
}

/// True: the architecture demands one rate of all processors (Arm ARM, D11.1: system counter).
pub fn is_steady(_: &str) -> bool {
    true
}

/// Ticks in about ten microseconds: how far a stamp may be ahead of the store that announced it.
/// The counter of one machine has 24 million ticks in a second, that of another a billion.
#[inline]
pub fn margin() -> u64 {
    rate() / 100_000 + 1
}

/// Ticks in ten milliseconds, more or less.
#[inline]
pub fn patience() -> u64 {
    rate() / 100 + 1
}

/// Ticks in a second, as firmware says.
#[inline]
fn rate() -> u64 {
    let rate: u64;
    // SAFETY: as above.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) rate, options(pure, nomem, nostack, preserves_flags)) };
    rate
}
