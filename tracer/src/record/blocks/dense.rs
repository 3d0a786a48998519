//! Numbers by address, in three steps, as a processor finds pages: 4 GiB, then 1 KiB, then 16 bytes. So a look-up is three
//! loads, the first two of which mostly hit the cache, and never a search.
//!
//! What it costs: 4 bytes for each 16 of a KiB in which a block begins, and 4 KiB for each MiB of such.

use super::memory::{Zeroed, reserve, reserve_one};

/// Addresses of user space, at the boundaries that the ABI's `max_align_t` asks of malloc(3).
const ADDRESS_BITS: u32 = 48;
const GRAIN_BITS: u32 = 4;
const LEAF_BITS: u32 = 10;
const TABLE_BITS: u32 = 32;

/// Grains of a leaf.
const GRAINS: usize = 1 << (LEAF_BITS - GRAIN_BITS);
const LEAVES: usize = 1 << (TABLE_BITS - LEAF_BITS);
const TABLES: usize = 1 << (ADDRESS_BITS - TABLE_BITS);

/// See the module. 0 is no number, leaf or table.
#[derive(Debug, Default)]
pub(super) struct Dense {
    /// The table of each 4 GiB, plus one; empty before there is any.
    top: Zeroed<TABLES>,
    tables: Vec<Zeroed<LEAVES>>,
    leaves: Vec<[u32; GRAINS]>,
    /// An address in each leaf.
    places: Vec<u64>,
    /// Leaves that are not in a table.
    free: Vec<u32>,
}

impl Dense {
    /// True if it is for such addresses.
    #[inline(always)]
    pub(super) fn holds(address: u64) -> bool {
        address != 0 && address.is_multiple_of(1 << GRAIN_BITS) && address >> ADDRESS_BITS == 0
    }

    /// The number at an address, 0 if it has none yet.
    #[inline(always)]
    pub(super) fn entry(&mut self, address: u64) -> &mut u32 {
        let leaf = match self.leaf(address) {
            Some(leaf) => leaf,
            None => self.add_leaf(address),
        };
        &mut self.leaves[leaf as usize][grain(address)]
    }

    #[inline(always)]
    pub(super) fn take(&mut self, address: u64) -> Option<u32> {
        let leaf = self.leaf(address)?;
        let number = std::mem::take(&mut self.leaves[leaf as usize][grain(address)]);
        (number != 0).then_some(number)
    }

    #[inline(always)]
    pub(super) fn get(&self, address: u64) -> Option<u32> {
        let leaf = self.leaf(address)?;
        Some(self.leaves[leaf as usize][grain(address)]).filter(|number| *number != 0)
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, address: u64) {
        if let Some(leaf) = self.leaf(address) {
            super::prefetch(&self.leaves[leaf as usize][grain(address)]);
        }
    }

    #[inline(always)]
    fn leaf(&self, address: u64) -> Option<u32> {
        let table = self.top.get(table_of(address));
        let table = self.tables.get((table as usize).wrapping_sub(1))?;
        Some(table.get(place_of(address))).filter(|leaf| *leaf != 0)
    }

    #[cold]
    fn add_leaf(&mut self, address: u64) -> u32 {
        if self.free.is_empty() && self.leaves.len() == self.leaves.capacity() {
            self.take_back();
        }
        let leaf = self.free.pop().unwrap_or_else(|| self.another_leaf());
        self.places[leaf as usize] = address;
        if self.top.get(table_of(address)) == 0 {
            self.tables.push(Zeroed::default());
            self.top.set(table_of(address), self.tables.len() as u32);
        }
        self.set_leaf(address, leaf);
        leaf
    }

    fn another_leaf(&mut self) -> u32 {
        // Number 0 is none.
        let least = self.leaves.len().max(1) + 1;
        while self.leaves.len() < least {
            reserve_one(&mut self.leaves);
            self.leaves.push([0; GRAINS]);
            self.places.push(0);
        }
        (self.leaves.len() - 1) as u32
    }

    /// Frees the leaves that no block begins in any more. That is done when there is no room for another, and room is
    /// doubled then: it costs each leaf a constant, and a release nothing.
    fn take_back(&mut self) {
        for leaf in 1..self.leaves.len() {
            if self.leaves[leaf].iter().all(|number| *number == 0) {
                self.set_leaf(self.places[leaf], 0);
                self.free.push(leaf as u32);
            }
        }
        if self.free.len() < self.leaves.len() / 2 {
            reserve(&mut self.leaves);
        }
    }

    fn set_leaf(&mut self, address: u64, leaf: u32) {
        let table = self.top.get(table_of(address)) as usize - 1;
        self.tables[table].set(place_of(address), leaf);
    }
}

#[inline(always)]
fn table_of(address: u64) -> usize {
    (address >> TABLE_BITS) as usize
}

#[inline(always)]
fn place_of(address: u64) -> usize {
    (address >> LEAF_BITS) as usize
}

#[inline(always)]
fn grain(address: u64) -> usize {
    (address >> GRAIN_BITS) as usize % GRAINS
}
