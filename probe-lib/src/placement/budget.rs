//! How much of the fast tier is mapped: by blocks, and by mappings that are retained for the next ones.
//! The plan keeps within its bytes if the program does what it did; this holds whatever it does.

use core::sync::atomic::{AtomicUsize, Ordering};

use memtrace_wire::placement::{Placement, Tier};

static FAST: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// Holds from now on.
pub fn begin(placement: &Placement) {
    FAST.store(placement.fast as usize, Ordering::Relaxed);
    MOST.store(placement.most as usize, Ordering::Relaxed);
}

fn counts(tier: Tier) -> bool {
    usize::from(tier.code()) == FAST.load(Ordering::Relaxed)
}

/// Takes bytes for a mapping; false if there are not so many.
pub fn take(tier: Tier, length: usize) -> bool {
    if !counts(tier) {
        return true;
    }
    let most = MOST.load(Ordering::Relaxed);
    let more = |mapped: usize| mapped.checked_add(length).filter(|mapped| *mapped <= most);
    MAPPED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// A mapping is gone.
pub fn give_back(tier: Tier, length: usize) {
    if counts(tier) {
        MAPPED.fetch_sub(length, Ordering::Relaxed);
    }
}
