//! The heap of one process: its blocks by address, and the pairing of acquires with releases.
//!
//! An allocator never returns a live address, so per address acquires and releases alternate.
//! Stamps may be late by less than a microsecond (no fence on the hot path); an acquire on a live
//! address therefore ends the old block there and leaves one release pending, which the late one
//! settles ([`late`](super::late)).

use super::blocks::{Block, Blocks};
use super::late::Late;
use super::recent::Recent;

/// What a release matched.
pub enum Released {
    /// The block.
    Block(Block),
    /// A block that a later acquire has ended already.
    Settled,
    /// No known block.
    Unknown,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Heap {
    blocks: Blocks,
    /// Sum of the blocks, and of those that calls under way will release.
    bytes: u64,
    late: Late<u64>,
    recent: Recent,
}

impl Heap {
    /// Live blocks by address.
    #[inline(always)]
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The same, to note what they contain.
    pub fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    /// Live bytes.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a block. Returns the one whose release is late, if there was one at this address.
    #[inline(always)]
    pub fn acquire(&mut self, address: u64, block: Block) -> Option<Block> {
        self.bytes += block.bytes;
        let old = self.blocks.insert(address, block);
        if let Some(old) = old {
            self.bytes -= old.bytes;
            self.late.expect_release(address, block.alloc);
        }
        old
    }

    /// From now on the process has threads, which may hand blocks to each other.
    pub fn share(&mut self) {
        self.recent.start();
    }

    /// A release of `address` by a thread; releases that are pending for more than `patience` ticks
    /// are not settled by it, and are added to `missing`.
    #[inline(always)]
    pub fn release(
        &mut self,
        thread: u32,
        address: u64,
        stamp: u64,
        patience: u64,
        missing: &mut u64,
    ) -> Released {
        if self.late.settle(address, stamp, patience, missing) {
            return Released::Settled;
        }
        match self.blocks.remove(address) {
            Some(block) => {
                self.bytes -= block.bytes;
                self.recent.note(address, stamp, thread);
                Released::Block(block)
            }
            None => Released::Unknown,
        }
    }

    /// The other thread whose release has ended the last block at this address, at most `patience`
    /// ticks before `stamp`.
    pub fn released_by_other(&self, thread: u32, address: u64, stamp: u64, patience: u64) -> Option<u32> {
        self.recent.by_other(thread, address, stamp, patience)
    }

    /// A release by a thread matched no block; it may yet match one that is acquired later.
    /// `before`: the other thread whose release has just ended the block there.
    pub fn note_unmatched(&mut self, thread: u32, address: u64, stamp: u64, before: Option<u32>) {
        self.late.note_unmatched(address, stamp, thread, before);
    }

    /// True if releases that matched no block may yet match theirs.
    #[inline(always)]
    pub fn has_early_releases(&self) -> bool {
        self.late.has_early()
    }

    /// The thread whose release matched no block because its stamp is earlier than that of the
    /// acquire, which comes only now.
    pub fn early_release(&mut self, thread: u32, address: u64, stamp: u64, patience: u64) -> Option<u32> {
        self.late.take_early(thread, address, stamp, patience)
    }

    /// A block that was released stays live until [`Heap::end_in_flight`]: its address may be
    /// reused.
    pub fn begin_in_flight(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// It is no longer live.
    pub fn end_in_flight(&mut self, bytes: u64) {
        self.bytes -= bytes;
    }

    /// The call that would have released a block has failed: its bytes count already.
    pub fn restore(&mut self, address: u64, block: Block) {
        self.blocks.insert(address, block);
    }

    /// No release is awaited any longer: how many never came.
    pub fn take_missing(&mut self) -> u64 {
        self.late.take_missing()
    }

    /// The process has ended: its blocks.
    pub fn take(&mut self) -> Blocks {
        self.bytes = 0;
        self.recent = Recent::default();
        std::mem::take(&mut self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Blocks passed from thread to thread at one address, some releases late: after the last
        /// release nothing is live, nothing is missing, and live bytes never count two blocks at
        /// once.
        #[test]
        fn late_releases_are_settled(sizes in prop::collection::vec((1..1000u64, any::<bool>()), 1..100)) {
            let (mut heap, mut missing) = (Heap::default(), 0);
            let mut pending = 0;
            for (at, (bytes, late)) in sizes.iter().enumerate() {
                let stamp = at as u64 * 10;
                heap.acquire(0x1000, Block::plain(*bytes, stamp));
                prop_assert_eq!(heap.bytes(), *bytes);
                while pending > 0 {
                    let released = heap.release(0, 0x1000, stamp + 1, 1000, &mut missing);
                    prop_assert!(matches!(released, Released::Settled));
                    pending -= 1;
                }
                if *late && at + 1 < sizes.len() {
                    pending += 1;
                } else {
                    let released = heap.release(0, 0x1000, stamp + 5, 1000, &mut missing);
                    prop_assert!(matches!(released, Released::Block(_)));
                }
            }
            prop_assert_eq!((heap.bytes(), missing), (0, 0));
            prop_assert_eq!(heap.blocks().iter().count(), 0);
        }
    }

    #[test]
    fn a_pending_release_is_not_awaited_for_ever() {
        let (mut heap, mut missing) = (Heap::default(), 0);
        heap.acquire(0x1000, Block::plain(10, 0));
        heap.acquire(0x1000, Block::plain(20, 5));
        let released = heap.release(0, 0x1000, 5000, 1000, &mut missing);
        assert!(matches!(released, Released::Block(Block { bytes: 20, .. })));
        assert_eq!((heap.bytes(), missing), (0, 1));
    }

    #[test]
    fn a_block_in_flight_is_live_until_its_call_returns() {
        let (mut heap, mut missing) = (Heap::default(), 0);
        heap.acquire(0x1000, Block::plain(10, 0));
        let Released::Block(given) = heap.release(0, 0x1000, 5, 1000, &mut missing) else {
            panic!("it was there")
        };
        heap.begin_in_flight(given.bytes);
        assert_eq!((heap.bytes(), heap.blocks().iter().count()), (10, 0));
        heap.restore(0x1000, given);
        assert_eq!((heap.bytes(), heap.blocks().iter().count()), (10, 1));
    }
}
