//! Which blocks get a call stack ([`memtrace_wire::sampling`]): decided by counting bytes down.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use memtrace_wire::sampling::exponential;

use crate::tls::Thread;

static EXACT_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
static MEAN_BYTES: AtomicU64 = AtomicU64::new(0);

/// Says which; none before that.
pub fn choose(exact_from: u64, mean_bytes: u64) {
    MEAN_BYTES.store(mean_bytes, Ordering::Relaxed);
    EXACT_FROM.store(exact_from as usize, Ordering::Relaxed);
}

/// What a thread counts with. All zeroes is before the first block.
#[repr(C)]
pub struct Countdown {
    /// Bytes to the next mark, less one.
    left: i64,
    /// State of the generator; 0: nothing was drawn yet.
    random: u64,
}

impl Countdown {
    /// Draws anew.
    pub const NEW: Countdown = Countdown { left: 0, random: 0 };
}

/// True for what is large enough in any case. Mappings get a stack only then: what is touched of them, and so counts,
/// comes later.
#[inline(always)]
pub fn is_exact(bytes: usize) -> bool {
    bytes >= EXACT_FROM.load(Ordering::Relaxed)
}

/// Counts a block's bytes down: false if it surely gets no stack, true if [`wants`] has to be asked.
#[inline(always)]
pub fn may_want(thread: &mut Thread, bytes: usize) -> bool {
    let left = thread.countdown.left.wrapping_sub(bytes as i64);
    if is_exact(bytes) || left < 0 {
        return true;
    }
    thread.countdown.left = left;
    false
}

/// True if a block gets a stack.
pub fn wants(thread: &mut Thread, bytes: usize) -> bool {
    if is_exact(bytes) {
        return true;
    }
    let mean = MEAN_BYTES.load(Ordering::Relaxed);
    let countdown = &mut thread.countdown;
    if mean == 0 {
        countdown.left = i64::MAX;
        return false;
    }
    if countdown.random == 0 {
        // SAFETY: every x86-64 has rdtsc.
        let seed = unsafe { _rdtsc() } ^ (&raw const *countdown as u64).rotate_left(32);
        countdown.random = seed | 1;
        countdown.draw(mean);
    }
    countdown.left = countdown.left.wrapping_sub(bytes as i64);
    if countdown.left >= 0 {
        return false;
    }
    countdown.draw(mean);
    true
}

impl Countdown {
    fn draw(&mut self, mean: u64) {
        // xorshift64* (Vigna 2016)
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.left = exponential(self.random.wrapping_mul(0x2545_f491_4f6c_dd1d), mean) as i64;
    }
}
