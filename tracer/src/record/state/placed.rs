//! Blocks that a plan has placed, and how much of each was moved out since.

use std::collections::BTreeMap;

use memtrace_wire::placement::Tier;

/// After so many blocks, those that are no longer live are forgotten; after more, if more are live.
const MANY: usize = 1024;

/// What is known of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedBlock {
    /// Its bytes.
    pub bytes: u64,
    /// Where it was allocated.
    pub tier: Tier,
    /// Of its bytes, those that the plan has moved to swap or to the slow node, and not back.
    pub out: u64,
    /// It was not live when that was last asked: it has been released, or is about to be allocated.
    missed: bool,
}

/// Those of all processes.
#[derive(Debug, Default)]
pub struct PlacedBlocks {
    /// By process and address.
    blocks: BTreeMap<(u32, u64), PlacedBlock>,
    /// As many may come before those that are no longer live are forgotten.
    left: usize,
}

impl PlacedBlocks {
    /// A block is about to be allocated. `is_live`: whether a process has one at an address.
    pub fn place(
        &mut self,
        (process, address): (u32, u64),
        bytes: u64,
        tier: Tier,
        is_live: impl Fn(u32, u64) -> bool,
    ) {
        if self.left == 0 {
            self.blocks.retain(|&(process, address), block| {
                let was_missed = std::mem::replace(&mut block.missed, !is_live(process, address));
                !(was_missed && block.missed)
            });
            self.left = self.blocks.values().filter(|block| !block.missed).count().max(MANY);
        }
        self.left -= 1;
        self.blocks.insert((process, address), PlacedBlock { bytes, tier, out: 0, missed: false });
    }

    /// Pages of a block, from this address on, were moved out, or came back.
    pub fn shift(&mut self, (process, address): (u32, u64), bytes: u64, is_out: bool) {
        let before = self.blocks.range_mut((process, 0)..=(process, address)).next_back();
        let Some(((_, start), block)) = before else { return };
        if address < start.saturating_add(block.bytes) {
            let out = if is_out { block.out.saturating_add(bytes) } else { block.out.saturating_sub(bytes) };
            block.out = out.min(block.bytes);
        }
    }

    /// All, with process and address; some may have been released.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64, PlacedBlock)> {
        self.blocks.iter().map(|(&(process, address), &block)| (process, address, block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(placed: &PlacedBlocks) -> Vec<u64> {
        placed.iter().map(|(_, _, block)| block.out).collect()
    }

    #[test]
    fn what_moves_is_counted_where_it_is() {
        let page = 4096;
        let mut placed = PlacedBlocks::default();
        let live = |_, _| true;
        placed.place((1, 100 * page), 5 * page, Tier::Dram, live);
        placed.place((1, 200 * page), 2 * page, Tier::Dram, live);
        placed.place((2, 100 * page), 5 * page, Tier::Dram, live);
        placed.shift((1, 100 * page), 3 * page, true);
        placed.shift((1, 104 * page), page, true);
        placed.shift((1, 200 * page), 3 * page, true);
        assert_eq!(out(&placed), [4 * page, 2 * page, 0], "no more than the block has");
        placed.shift((1, 101 * page), 2 * page, false);
        placed.shift((1, 150 * page), page, true);
        placed.shift((3, 100 * page), page, true);
        assert_eq!(out(&placed), [2 * page, 2 * page, 0]);
    }

    #[test]
    fn blocks_that_were_released_are_forgotten() {
        let mut placed = PlacedBlocks::default();
        let is_live = |_, address: u64| address.is_multiple_of(100);
        for address in 1..100_000 {
            placed.place((1, address), 8, Tier::SmallPages, is_live);
        }
        let live = placed.iter().filter(|(_, address, _)| is_live(1, *address)).count();
        assert_eq!(live, 999);
        assert!(placed.iter().count() < 4 * MANY);
    }
}
