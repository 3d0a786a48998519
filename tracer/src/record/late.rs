//! Acquires and releases of one address whose stamps are in the wrong order.
//!
//! Nobody is handed an address that is live, so per address acquires and releases alternate. Where stamps say otherwise,
//! a release is late: its block was ended by the acquire after it, and it is owed. Or it is early: it met nothing, and its
//! block is only coming.

use std::collections::VecDeque;
use std::hash::Hash;

use rustc_hash::FxHashMap;

#[derive(Debug, Clone, Copy)]
struct Debt {
    count: u32,
    since: u64,
}

/// Releases that met nothing and are remembered at most.
const EARLY_MAX: usize = 256;

/// A release that met nothing.
#[derive(Debug, Clone, Copy)]
struct Early<K> {
    key: K,
    stamp: u64,
    thread: u32,
}

/// What is owed, and what came too early, by what names a block.
#[derive(Debug)]
pub struct Late<K> {
    debts: FxHashMap<K, Debt>,
    early: VecDeque<Early<K>>,
}

impl<K> Default for Late<K> {
    fn default() -> Self {
        Late { debts: FxHashMap::default(), early: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash> Late<K> {
    /// The release of a block is still to come.
    #[cold]
    pub fn owe(&mut self, key: K, since: u64) {
        let debt = self.debts.entry(key).or_insert(Debt { count: 0, since });
        debt.count += 1;
        debt.since = since;
    }

    /// True if the release was owed. A debt that is older than `patience` ticks is not paid by it, and added to `unpaid`.
    #[inline(always)]
    pub fn pay(&mut self, key: K, stamp: u64, patience: u64, unpaid: &mut u64) -> bool {
        !self.debts.is_empty() && self.pay_some(key, stamp, patience, unpaid)
    }

    #[cold]
    fn pay_some(&mut self, key: K, stamp: u64, patience: u64, unpaid: &mut u64) -> bool {
        let Some(debt) = self.debts.get_mut(&key) else { return false };
        if stamp.saturating_sub(debt.since) > patience {
            *unpaid += u64::from(debt.count);
            self.debts.remove(&key);
            return false;
        }
        debt.count -= 1;
        if debt.count == 0 {
            self.debts.remove(&key);
        }
        true
    }

    /// How many will never be paid now.
    pub fn write_off(&mut self) -> u64 {
        self.debts.drain().map(|(_, debt)| u64::from(debt.count)).sum()
    }

    /// A release by a thread met nothing.
    pub fn met_nothing(&mut self, key: K, stamp: u64, thread: u32) {
        if self.early.len() == EARLY_MAX {
            self.early.pop_front();
        }
        self.early.push_back(Early { key, stamp, thread });
    }

    /// True if releases that met nothing may yet meet their block.
    #[inline(always)]
    pub fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// The thread whose release met nothing because its stamp is earlier than that of the acquire, which comes only
    /// now. RDTSC waits for no load (Intel SDM, volume 2), so a block that is handed over at this moment may be
    /// released some 100 ns before it is acquired; never by the thread that acquired it.
    pub fn take_early(&mut self, thread: u32, key: K, stamp: u64, patience: u64) -> Option<u32> {
        let old = self.early.partition_point(|early| stamp.saturating_sub(early.stamp) > patience);
        self.early.drain(..old);
        let found = self.early.iter().position(|early| early.key == key && early.thread != thread)?;
        self.early.remove(found).map(|early| early.thread)
    }

    /// The release that a thread told last met nothing, and was none.
    pub fn forget_early(&mut self, thread: u32, key: K) {
        let found = self.early.iter().rposition(|early| early.key == key && early.thread == thread);
        found.map(|found| self.early.remove(found));
    }
}
