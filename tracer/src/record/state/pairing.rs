//! Pairs releases with the heap blocks of a process, and counts those that match none.

use super::blocks::Block;
use super::heap::Released;
use super::in_flight::Unknown;
use super::process::Process;

impl Process {
    /// A release of `address` by a thread; releases that are pending for more than `patience` ticks
    /// are not settled by it. One that matches no block is to be counted
    /// ([`Process::released_unknown`]).
    #[inline(always)]
    pub fn release(&mut self, thread: u32, address: u64, stamp: u64, patience: u64) -> Released {
        self.heap.release(thread, address, stamp, patience, &mut self.row.unseen_releases)
    }

    /// A release by a thread matched no block; it may yet match one that is acquired later.
    /// `before`: the other thread whose release has just ended the block there.
    pub fn released_unknown(&mut self, thread: u32, address: u64, stamp: u64, before: Option<u32>) {
        *self.unknown_releases() += 1;
        // A forked child's is most likely that of an inherited block.
        if before.is_some() || self.row.origin != "fork" {
            self.heap.note_unmatched(thread, address, stamp, before);
        }
    }

    /// A `realloc` of a block that was not known at its beginning has returned `moved`. The block,
    /// if its acquire by another thread was stamped after that beginning.
    #[cold]
    pub fn reallocated_unknown(
        &mut self,
        thread: u32,
        unknown: Unknown,
        moved: u64,
        stamp: u64,
        patience: u64,
    ) -> Option<Block> {
        let Unknown { address, before } = unknown;
        // Where the block stays in its place, no other thread has acquired one there meanwhile.
        let is_handed = |block: Block| moved == address && block.thread != thread;
        if self.heap.blocks().get(address).is_some_and(is_handed) {
            return match self.release(thread, address, stamp, patience) {
                Released::Block(block) => Some(block),
                _ => None,
            };
        }
        match before {
            // What is acquired there next may be any thread's: realloc(3) has released the block.
            None if moved != address => *self.unknown_releases() += 1,
            // The block that was given is still to come, or the other thread's release is of the one
            // that this call returns or that is acquired there after it.
            before => self.released_unknown(thread, address, stamp, before),
        }
        None
    }

    /// The thread whose release matched no block because its stamp is earlier than that of the
    /// acquire, which comes only now.
    pub fn early_release(&mut self, thread: u32, address: u64, stamp: u64, patience: u64) -> Option<u32> {
        let releaser = self.heap.early_release(thread, address, stamp, patience)?;
        *self.unknown_releases() -= 1;
        Some(releaser)
    }

    /// Blocks from before a fork belong to the parent; anything else we should have seen.
    pub fn unknown_releases(&mut self) -> &mut u64 {
        if self.row.origin == "fork" {
            &mut self.row.inherited_releases
        } else {
            &mut self.row.unseen_releases
        }
    }

    /// Counts the releases that are still pending and will never come now.
    pub fn count_missing_releases(&mut self) {
        self.row.unseen_releases += self.heap.take_missing();
    }
}

#[cfg(test)]
mod tests {
    use memtrace_trace::rows::ProcessRow;

    use super::*;

    fn process() -> Process {
        let row = ProcessRow { origin: "exec".into(), ..Default::default() };
        Process::new(row, 0)
    }

    #[test]
    fn a_release_stamped_before_its_acquire_is_that_of_another_thread() {
        let mut process = process();
        let release = |process: &mut Process, thread, stamp| {
            let released = process.release(thread, 0x1000, stamp, 1000);
            if matches!(released, Released::Unknown) {
                process.released_unknown(thread, 0x1000, stamp, None);
            }
        };
        release(&mut process, 1, 100);
        assert_eq!(process.row.unseen_releases, 1);
        process.acquire(0x1000, Block::plain(10, 101));
        assert_eq!(process.early_release(1, 0x1000, 101, 50), None, "a thread's own stamps are in order");
        assert_eq!(process.early_release(0, 0x2000, 102, 50), None, "not of this block");
        assert_eq!(process.early_release(0, 0x1000, 103, 50), Some(1));
        assert_eq!(process.row.unseen_releases, 0, "it has been seen after all");
        assert_eq!(process.early_release(0, 0x1000, 104, 50), None, "once");
        release(&mut process, 1, 200);
        assert_eq!(process.row.unseen_releases, 0, "the block was there");
        release(&mut process, 1, 300);
        assert_eq!(process.early_release(0, 0x1000, 400, 50), None, "too long ago");
        assert_eq!(process.row.unseen_releases, 1);
    }

    /// Thread 1 releases a block, acquires one at the same address and hands it to thread 2, whose
    /// release is stamped before all that.
    #[test]
    fn a_release_stamped_before_that_of_the_block_before_is_of_this_one() {
        for others_release in [true, false] {
            let mut process = process();
            process.heap.share();
            process.acquire(0x1000, Block::plain(10, 50));
            let early = if others_release { 2 } else { 1 };
            assert!(matches!(process.release(early, 0x1000, 99, 1000), Released::Block(_)));
            assert!(matches!(process.release(1, 0x1000, 100, 1000), Released::Unknown));
            let before = process.heap.released_by_other(1, 0x1000, 100, 50);
            process.released_unknown(1, 0x1000, 100, before);
            process.acquire(0x1000, Block::plain(20, 101));
            let releaser = process.early_release(1, 0x1000, 101, 50);
            assert_eq!(releaser, others_release.then_some(2));
            assert_eq!(process.row.unseen_releases, u64::from(!others_release));
        }
    }

    /// Thread 1 reallocates a block that thread 2's release, which is stamped too early, has ended.
    #[test]
    fn a_release_stamped_before_the_realloc_that_made_the_block_is_of_that() {
        for moved in [0x1000, 0x2000] {
            let mut process = process();
            process.heap.share();
            process.acquire(0x1000, Block::plain(10, 50));
            process.release(2, 0x1000, 99, 1000);
            assert!(matches!(process.release(1, 0x1000, 100, 1000), Released::Unknown));
            let before = process.heap.released_by_other(1, 0x1000, 100, 50);
            let unknown = Unknown { address: 0x1000, before };
            assert_eq!(process.reallocated_unknown(1, unknown, moved, 101, 1000), None);
            process.acquire(moved, Block::plain(20, 101));
            let releaser = process.early_release(1, moved, 101, 50);
            assert_eq!(releaser, (moved == 0x1000).then_some(2));
            if moved == 0x2000 {
                // What thread 2 has released is the next block there.
                process.acquire(0x1000, Block::plain(30, 102));
                assert_eq!(process.early_release(1, 0x1000, 102, 50), Some(2));
            }
            assert_eq!(process.row.unseen_releases, 0);
        }
    }

    /// Thread 1 reallocates a block in its place, and frees it; by the stamps, thread 2 acquires it
    /// between the two.
    #[test]
    fn a_block_may_be_acquired_after_it_is_reallocated() {
        let mut process = process();
        assert!(matches!(process.release(1, 0x1000, 100, 1000), Released::Unknown));
        let unknown = Unknown { address: 0x1000, before: None };
        assert_eq!(process.reallocated_unknown(1, unknown, 0x1000, 101, 1000), None);
        process.acquire(0x1000, Block { thread: 1, ..Block::plain(20, 101) });
        assert_eq!(process.early_release(1, 0x1000, 101, 50), None, "it is live");
        process.acquire(0x1000, Block { thread: 2, ..Block::plain(10, 102) });
        assert_eq!(process.early_release(2, 0x1000, 102, 50), Some(1));
        assert!(matches!(process.release(1, 0x1000, 102, 1000), Released::Settled));
        assert!(matches!(process.release(1, 0x1000, 103, 1000), Released::Block(_)));
        assert_eq!((process.row.unseen_releases, process.heap.bytes()), (0, 0));
    }

    /// Thread 1 reallocates a block of thread 2, by the stamps before that has acquired it.
    #[test]
    fn a_block_may_be_reallocated_before_it_is_acquired() {
        let unknown = Unknown { address: 0x1000, before: None };
        for (moved, is_known) in [(0x1000, true), (0x2000, false)] {
            let mut process = process();
            let handed = Block { thread: 2, ..Block::plain(10, 101) };
            assert!(matches!(process.release(1, 0x1000, 100, 1000), Released::Unknown));
            process.acquire(0x1000, handed);
            let ended = process.reallocated_unknown(1, unknown, moved, 102, 1000);
            assert_eq!(ended, is_known.then_some(handed), "where it moved, the block may be another");
            assert_eq!(process.row.unseen_releases, u64::from(!is_known));
        }
    }
}
