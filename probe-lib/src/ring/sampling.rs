//! Which blocks get a call stack ([`memtrace_wire::sampling`]): decided by counting bytes down.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use memtrace_wire::arch::counter;
use memtrace_wire::sampling::exponential;

use crate::tls::Thread;

static EXACT_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
static MEAN_BYTES: AtomicU64 = AtomicU64::new(0);

/// Sets both thresholds; before that no block gets a stack.
pub fn choose(exact_from: u64, mean_bytes: u64) {
    MEAN_BYTES.store(mean_bytes, Ordering::Relaxed);
    EXACT_FROM.store(exact_from as usize, Ordering::Relaxed);
}

/// True if any block gets a stack.
pub fn is_on() -> bool {
    EXACT_FROM.load(Ordering::Relaxed) != usize::MAX
}

/// Lets a thread draw anew at its next allocation.
pub fn begin(thread: &mut Thread) {
    (thread.unsampled, thread.random) = (0, 0);
}

/// True for sizes that always get a stack. Mappings get one only then: they count by what is
/// touched of them, which comes later.
#[inline(always)]
pub fn is_exact(bytes: usize) -> bool {
    bytes >= EXACT_FROM.load(Ordering::Relaxed)
}

/// Counts a block's bytes down: false if it surely gets no stack, true if [`wants`] decides.
#[inline(always)]
pub fn may_want(thread: &mut Thread, bytes: usize) -> bool {
    let left = thread.unsampled.wrapping_sub(bytes as i64);
    if is_exact(bytes) || left < 0 {
        return true;
    }
    thread.unsampled = left;
    false
}

/// True if a block gets a stack.
#[inline(always)]
pub fn wants(thread: &mut Thread, bytes: usize) -> bool {
    is_exact(bytes) || is_marked(thread, bytes)
}

/// True if one of a block's bytes is marked.
#[cold]
#[inline(never)]
fn is_marked(thread: &mut Thread, bytes: usize) -> bool {
    let mean = MEAN_BYTES.load(Ordering::Relaxed);
    if mean == 0 {
        thread.unsampled = i64::MAX;
        return false;
    }
    if thread.random == 0 {
        let seed = counter::stamp() ^ (&raw const *thread as u64).rotate_left(32);
        thread.random = seed | 1;
        draw(thread, mean);
    }
    thread.unsampled = thread.unsampled.wrapping_sub(bytes as i64);
    if thread.unsampled >= 0 {
        return false;
    }
    draw(thread, mean);
    true
}

#[inline(never)]
fn draw(thread: &mut Thread, mean: u64) {
    // xorshift64* (Vigna 2016)
    thread.random ^= thread.random >> 12;
    thread.random ^= thread.random << 25;
    thread.random ^= thread.random >> 27;
    thread.unsampled = exponential(thread.random.wrapping_mul(0x2545_f491_4f6c_dd1d), mean) as i64;
}
