//! How much of the fast tier is taken: by blocks, and by mappings that are retained for the next ones.
//! The plan keeps within its bytes if the program does what it did; this holds whatever it does.

use core::sync::atomic::{AtomicUsize, Ordering};

use memtrace_wire::placement::{Placement, Tier};

static FAST: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Holds from now on.
pub fn begin(placement: &Placement) {
    FAST.store(placement.fast as usize, Ordering::Relaxed);
    MOST.store(placement.most as usize, Ordering::Relaxed);
}

/// How many bytes of the fast tier a mapping in a tier takes: all or none.
pub fn share(tier: Tier, length: usize) -> usize {
    if usize::from(tier.code()) == FAST.load(Ordering::Relaxed) { length } else { 0 }
}

/// Takes bytes; false if there are not so many.
pub fn take(bytes: usize) -> bool {
    let most = MOST.load(Ordering::Relaxed);
    let more = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= most);
    bytes == 0 || TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// They are free again.
pub fn give_back(bytes: usize) {
    TAKEN.fetch_sub(bytes, Ordering::Relaxed);
}
