//! How much of the fast tier, and of a middle one, is taken: by blocks, and by mappings that are retained
//! for the next ones. The plan keeps within its bytes if the program does what it did; this holds
//! whatever it does.

use core::sync::atomic::{AtomicUsize, Ordering};

use memtrace_wire::placement::{Placement, Tier};

/// Bytes of a tier.
struct Budget {
    /// The tier's code; none's at first.
    tier: AtomicUsize,
    most: AtomicUsize,
    taken: AtomicUsize,
}

static FAST: Budget = Budget::new();
static MIDDLE: Budget = Budget::new();

impl Budget {
    const fn new() -> Budget {
        let (tier, most, taken) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Budget { tier, most, taken }
    }

    fn begin(&self, tier: u64, most: u64) {
        self.tier.store(tier as usize, Ordering::Relaxed);
        self.most.store(most as usize, Ordering::Relaxed);
    }

    fn is_of(&self, tier: Tier) -> bool {
        usize::from(tier.code()) == self.tier.load(Ordering::Relaxed)
    }
}

/// Holds from now on.
pub fn begin(placement: &Placement) {
    FAST.begin(placement.fast, placement.most);
    MIDDLE.begin(placement.middle, placement.most_middle);
}

/// What counts the bytes of a mapping in a tier. Of one in the slow tier those count that were moved to
/// the fast one.
fn of(tier: Tier) -> &'static Budget {
    if MIDDLE.is_of(tier) { &MIDDLE } else { &FAST }
}

/// How many bytes of a mapping in a tier count: all or none.
pub fn share(tier: Tier, length: usize) -> usize {
    if of(tier).is_of(tier) { length } else { 0 }
}

/// Takes bytes; false if there are not so many.
pub fn take(tier: Tier, bytes: usize) -> bool {
    let Budget { most, taken, .. } = of(tier);
    let most = most.load(Ordering::Relaxed);
    let more = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= most);
    bytes == 0 || taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// They are free again.
pub fn give_back(tier: Tier, bytes: usize) {
    of(tier).taken.fetch_sub(bytes, Ordering::Relaxed);
}
