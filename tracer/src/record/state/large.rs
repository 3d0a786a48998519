//! Large heap blocks that are live, and how much of each has been touched: memory that was
//! requested is live, and not yet resident.

use std::collections::BTreeMap;

use memtrace_wire::arch::page::bytes as page_bytes;

/// Blocks from this size on get a row if a part of them was never touched.
pub const LARGE: u64 = 1 << 20;

#[derive(Debug, Clone, Copy)]
struct Block {
    bytes: u64,
    touched: u64,
}

impl Block {
    fn untouched(&self) -> u64 {
        self.bytes - self.touched.min(self.bytes)
    }
}

/// Those of one process.
#[derive(Debug, Default)]
pub struct LargeBlocks {
    blocks: BTreeMap<u64, Block>,
    untouched: u64,
}

impl LargeBlocks {
    /// Bytes of them that were never touched.
    pub fn untouched_bytes(&self) -> u64 {
        self.untouched
    }

    /// A block was allocated; pages with this many bytes of it have been touched before.
    pub fn insert(&mut self, address: u64, bytes: u64, touched: u64) {
        self.remove(address);
        let block = Block { bytes, touched };
        self.untouched += block.untouched();
        self.blocks.insert(address, block);
    }

    /// A block was released. Returns how many bytes of it were never touched, if it is one of them.
    pub fn remove(&mut self, address: u64) -> Option<u64> {
        let untouched = self.blocks.remove(&address)?.untouched();
        self.untouched -= untouched;
        Some(untouched)
    }

    /// Pages of a range were touched: `count` gives with how many bytes that was new, in a part of
    /// it.
    pub fn touch(&mut self, start: u64, bytes: u64, mut count: impl FnMut(u64, u64) -> u64) {
        let end = start.saturating_add(bytes);
        // A page may have the end of one block in it and the beginning of the next.
        let before = self.blocks.range(..start).next_back().map(|(address, _)| *address);
        for (address, block) in self.blocks.range_mut(before.unwrap_or(start)..end) {
            let first = address & !(page_bytes() - 1);
            let last = address.saturating_add(block.bytes).next_multiple_of(page_bytes());
            let (from, to) = (first.max(start), last.min(end));
            if from < to {
                self.untouched -= block.untouched();
                block.touched += count(from, to - from);
                self.untouched += block.untouched();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pages::Pages;
    use super::*;

    /// Pages between the beginnings of two blocks: each has at most 8.
    const APART: u64 = 10;

    proptest! {
        /// Against counting the pages of every block anew.
        #[test]
        fn sums_are_those_of_the_pages(steps in prop::collection::vec((0..3u8, 0..6u64, 0..60u64, 1..9u64), 1..80)) {
            let (mut large, mut pages) = (LargeBlocks::default(), Pages::default());
            let mut live: BTreeMap<u64, u64> = BTreeMap::new();
            for (what, block, start, length) in steps {
                let address = block * APART * page_bytes() + 16;
                match what {
                    0 => {
                        let bytes = length * page_bytes() - 100;
                        large.insert(address, bytes, pages.count(address, bytes));
                        live.insert(address, bytes);
                    }
                    1 => prop_assert_eq!(large.remove(address).is_some(), live.remove(&address).is_some()),
                    _ => {
                        large.touch(start * page_bytes(), length * page_bytes(), |start, bytes| pages.add(start, bytes));
                        pages.add(start * page_bytes(), length * page_bytes());
                    }
                }
                let untouched = |(address, bytes): (&u64, &u64)| bytes - pages.count(*address, *bytes).min(*bytes);
                prop_assert_eq!(large.untouched_bytes(), live.iter().map(untouched).sum::<u64>());
            }
        }
    }
}
