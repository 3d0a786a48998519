//! Numbers by address, as a processor finds pages: by 4 GiB, 2 MiB, 1 KiB, and 16 bytes. So a
//! look-up is four loads, of which all but the last mostly hit the cache, and never a search.
//!
//! What it costs: 4 bytes for each 16 of a KiB in which a block begins, and 8 KiB for each 2 MiB of
//! such. So it is for blocks that lie close together.

use memtrace_wire::arch::prefetch;

use super::memory::{push, reserve};

/// Addresses of user space, at the boundaries that the ABI's `max_align_t` asks of malloc(3).
const ADDRESS_BITS: u32 = 48;
const GRAIN_BITS: u32 = 4;
const LEAF_BITS: u32 = 10;
const TABLE_BITS: u32 = 21;
const NODE_BITS: u32 = 32;

/// Grains of a leaf.
const GRAINS: usize = 1 << (LEAF_BITS - GRAIN_BITS);
/// Leaves of a table.
const LEAVES: usize = 1 << (TABLE_BITS - LEAF_BITS);
/// Tables of a node.
const TABLES: usize = 1 << (NODE_BITS - TABLE_BITS);
/// Nodes of the root.
const NODES: usize = 1 << (ADDRESS_BITS - NODE_BITS);

/// See the module. 0 is no number, leaf, table or node.
#[derive(Debug, Default)]
pub(super) struct Dense {
    /// Empty before there is a node.
    root: Vec<u32>,
    nodes: Vec<[u32; TABLES]>,
    tables: Vec<[u32; LEAVES]>,
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

    /// The number at the last address that has one, from here back, among the `reach` bytes before
    /// it.
    pub(super) fn last_before(&self, address: u64, reach: u64) -> Option<u32> {
        let least = address.saturating_sub(reach);
        let mut at = address;
        while at >= least && at >> ADDRESS_BITS == 0 {
            if let Some(leaf) = self.leaf(at) {
                let grains = &self.leaves[leaf as usize][..=grain(at)];
                if let Some(number) = grains.iter().rev().find(|number| **number != 0) {
                    return Some(*number);
                }
            }
            at = (at & !((1 << LEAF_BITS) - 1)).checked_sub(1)?;
        }
        None
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, address: u64) {
        if let Some(leaf) = self.leaf(address) {
            prefetch::to_read(&self.leaves[leaf as usize][grain(address)]);
        }
    }

    #[inline(always)]
    fn leaf(&self, address: u64) -> Option<u32> {
        let node = *self.root.get((address >> NODE_BITS) as usize)?;
        // Node and table 0 are empty ones.
        let table = self.nodes[node as usize][(address >> TABLE_BITS) as usize % TABLES];
        Some(self.tables[table as usize][place(address)]).filter(|leaf| *leaf != 0)
    }

    #[cold]
    fn add_leaf(&mut self, address: u64) -> u32 {
        if self.free.is_empty() && self.leaves.len() == self.leaves.capacity() {
            self.take_back();
        }
        let leaf = self.free.pop().unwrap_or_else(|| {
            self.places.resize(self.leaves.len().max(1) + 1, 0);
            push(&mut self.leaves, [0; GRAINS])
        });
        self.places[leaf as usize] = address;
        let table = self.make_table(address);
        self.tables[table as usize][place(address)] = leaf;
        leaf
    }

    /// The table for an address.
    fn make_table(&mut self, address: u64) -> u32 {
        if self.root.is_empty() {
            self.root = vec![0; NODES];
        }
        let node = &mut self.root[(address >> NODE_BITS) as usize];
        if *node == 0 {
            *node = push(&mut self.nodes, [0; TABLES]);
        }
        let table = &mut self.nodes[*node as usize][(address >> TABLE_BITS) as usize % TABLES];
        if *table == 0 {
            *table = push(&mut self.tables, [0; LEAVES]);
        }
        *table
    }

    /// Frees the leaves that no block begins in any more. That is done when there is no room for
    /// another, and room is doubled then: it costs each leaf a constant, and a release nothing.
    fn take_back(&mut self) {
        for leaf in 1..self.leaves.len() {
            if self.leaves[leaf].iter().all(|number| *number == 0) {
                let table = self.make_table(self.places[leaf]);
                self.tables[table as usize][place(self.places[leaf])] = 0;
                self.free.push(leaf as u32);
            }
        }
        if self.free.len() < self.leaves.len() / 2 {
            reserve(&mut self.leaves);
        }
    }
}

#[inline(always)]
fn place(address: u64) -> usize {
    (address >> LEAF_BITS) as usize % LEAVES
}

#[inline(always)]
fn grain(address: u64) -> usize {
    (address >> GRAIN_BITS) as usize % GRAINS
}
