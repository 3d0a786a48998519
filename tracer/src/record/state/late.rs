//! Acquires and releases of one address whose stamps are in the wrong order.
//!
//! No allocator returns an address that is live, so per address acquires and releases alternate.
//! Where stamps say otherwise, a release is late: its block was ended by the acquire after it, and
//! the release is pending. Or it is early: its block is only coming. Then it matched no block, or
//! ended the one before, whose own release matches none.

use std::collections::VecDeque;
use std::hash::Hash;

use rustc_hash::FxHashMap;

#[derive(Debug, Clone, Copy)]
struct PendingRelease {
    count: u32,
    since: u64,
}

/// Releases that matched no block and are remembered at most.
const EARLY_MAX: usize = 256;

/// A release that matched no block.
#[derive(Debug, Clone, Copy)]
struct Early<K> {
    key: K,
    stamp: u64,
    thread: u32,
    /// The other thread whose release has just ended the block that had this key.
    before: Option<u32>,
}

/// Releases that are pending, and those that came too early, by what names a block.
#[derive(Debug)]
pub struct Late<K> {
    pending: FxHashMap<K, PendingRelease>,
    early: VecDeque<Early<K>>,
}

impl<K> Default for Late<K> {
    fn default() -> Self {
        Late { pending: FxHashMap::default(), early: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash> Late<K> {
    /// The release of a block is still to come.
    #[cold]
    pub fn expect_release(&mut self, key: K, since: u64) {
        let pending = self.pending.entry(key).or_insert(PendingRelease { count: 0, since });
        pending.count += 1;
        pending.since = since;
    }

    /// True if the release was pending, and is settled by this one. Releases that were pending for
    /// more than `patience` ticks are not, and are added to `missing`.
    #[inline(always)]
    pub fn settle(&mut self, key: K, stamp: u64, patience: u64, missing: &mut u64) -> bool {
        !self.pending.is_empty() && self.settle_some(key, stamp, patience, missing)
    }

    #[cold]
    fn settle_some(&mut self, key: K, stamp: u64, patience: u64, missing: &mut u64) -> bool {
        let Some(pending) = self.pending.get_mut(&key) else { return false };
        if stamp.saturating_sub(pending.since) > patience {
            *missing += u64::from(pending.count);
            self.pending.remove(&key);
            return false;
        }
        pending.count -= 1;
        if pending.count == 0 {
            self.pending.remove(&key);
        }
        true
    }

    /// No release is awaited any longer: how many never came.
    pub fn take_missing(&mut self) -> u64 {
        self.pending.drain().map(|(_, pending)| u64::from(pending.count)).sum()
    }

    /// A release by a thread matched no block; `before`: the other thread whose release has just
    /// ended the block that had this key.
    pub fn note_unmatched(&mut self, key: K, stamp: u64, thread: u32, before: Option<u32>) {
        if self.early.len() == EARLY_MAX {
            self.early.pop_front();
        }
        self.early.push_back(Early { key, stamp, thread, before });
    }

    /// True if releases that matched no block may yet match theirs.
    #[inline(always)]
    pub fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// The thread whose release matched no block because its stamp is earlier than that of the
    /// acquire, which comes only now. RDTSC waits for no load (Intel SDM, volume 2), so a block
    /// that is passed on at this moment may be released some 100 ns before it is acquired. The
    /// thread that acquired it never does that: if it has released the block before at the same
    /// place, another thread's early release has ended that one, and was meant for this.
    pub fn take_early(&mut self, thread: u32, key: K, stamp: u64, patience: u64) -> Option<u32> {
        let old = self.early.partition_point(|early| stamp.saturating_sub(early.stamp) > patience);
        self.early.drain(..old);
        let releaser = |early: &Early<K>| match early.thread == thread {
            true => early.before,
            false => Some(early.thread),
        };
        let mut of_key = self.early.iter().enumerate().filter(|(_, early)| early.key == key);
        let (found, releaser) = of_key.find_map(|(at, early)| Some((at, releaser(early)?)))?;
        self.early.remove(found);
        Some(releaser)
    }

    /// The last release of a thread matched no block, and was none.
    pub fn forget_early(&mut self, thread: u32, key: K) {
        let found = self.early.iter().rposition(|early| early.key == key && early.thread == thread);
        found.map(|found| self.early.remove(found));
    }
}
