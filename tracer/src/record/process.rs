//! One process: its blocks by address, and the pairing of acquires with releases.
//!
//! An allocator never returns a live address, so per address acquires and releases alternate. Stamps may
//! be late by less than a microsecond (no fence is paid for on the hot path); an acquire on a live address
//! therefore ends the old block there and owes one release, which the late one pays ([`late`](super::late)).

use memtrace_trace::rows::{Kind, ProcessRow};
use rustc_hash::FxHashMap;

use super::blocks::{Block, Blocks, Part};
use super::devices::Devices;
use super::kernel::{LargeBlocks, Pages};
use super::late::Late;
use super::mappings::{Mappings, Piece};
use super::sites::Site;
use super::spans::{Around, BlockKey, Memory};

/// What a call that is under way will release if it succeeds.
#[derive(Debug)]
pub enum Held {
    /// Of `realloc`: the block it was given; `unknown` if none is known there.
    Block { block: Option<(u64, Block)>, unknown: bool },
    /// Of what unmaps this address.
    Pieces { address: u64, pieces: Vec<Piece> },
    /// Of `mremap`: what it was given.
    Moving { from: u64, kind: Kind, pieces: Vec<Piece> },
}

/// What a release met.
pub enum Released {
    /// The block.
    Block(Block),
    /// It had been ended by a later acquire already.
    Paid,
    /// Nothing known there.
    Unknown,
}

/// What a process held at one time.
#[derive(Debug, Default, Clone)]
pub struct Holdings {
    /// Live bytes.
    pub live: u64,
    /// Live bytes by innermost operator, most first; blocks outside spans are left out.
    pub operators: Vec<(String, u64)>,
    /// Live bytes by site, most first; blocks without one are left out.
    pub sites: Vec<(Site, u64)>,
}

/// A process image.
pub struct Process {
    /// Its row; times are filled in when rows are written.
    pub row: ProcessRow,
    /// First stamp.
    pub start: u64,
    /// Stamp of its end, once it was seen to have ended.
    pub end: Option<u64>,
    /// Live heap blocks by address.
    pub blocks: Blocks,
    /// What it mapped.
    pub mappings: Mappings,
    /// Calls under way, by thread; a signal handler's calls lie inside those that it interrupted.
    held: FxHashMap<u32, Vec<Held>>,
    /// Sum of the heap blocks.
    pub heap: u64,
    /// Threads that still have a ring.
    pub writers: u32,
    /// The image that this one replaced by exec; it ends with this one's first event.
    pub replaces: Option<u32>,
    /// It lives in a pid namespace of its own.
    pub namespaced: bool,
    /// Where /proc shows it, once that was looked at; `None` in there if it does not.
    pub shown: Option<Option<u32>>,
    /// Largest resident size that was seen, the probe's rings included.
    pub resident_peak: u64,
    /// Pages that faults have told of, where there is a kernel side.
    pub pages: Pages,
    /// Large heap blocks and what faults have touched of them.
    pub large: LargeBlocks,
    /// Resident size when it was last looked at.
    pub resident_now: u64,
    /// Resident size when its stack and its data were looked at.
    pub image_looked_at: u64,
    /// It said that it is about to exit or to execute another program; one that is killed does not.
    pub told_ending: bool,
    /// Stamp of its parting: since then, what it holds does not count for all processes together.
    pub parted: Option<u64>,
    /// Another program took its place under its pid.
    pub replaced: bool,
    /// What it held when it ended, if it did not say that it would.
    pub killed_with: Option<Holdings>,
    /// Touched bytes of the rings it has used, by slot.
    pub rings: FxHashMap<usize, u64>,
    /// The span `--span` asked for.
    pub whole_span: Option<u32>,
    /// Stamp of the peak of live bytes, and heap and mapped bytes, and driver bytes of devices, then.
    pub at_peak: (u64, u64, u64, Option<u64>),
    /// What it has of devices, once it has used one.
    pub devices: Option<Box<Devices>>,
    late: Late<u64>,
}

impl Process {
    /// An image that was just met.
    pub fn new(row: ProcessRow, start: u64) -> Process {
        Process {
            row,
            start,
            end: None,
            blocks: Blocks::default(),
            mappings: Mappings::default(),
            held: FxHashMap::default(),
            heap: 0,
            writers: 0,
            replaces: None,
            namespaced: false,
            shown: None,
            resident_peak: 0,
            pages: Pages::default(),
            large: LargeBlocks::default(),
            resident_now: 0,
            image_looked_at: 0,
            told_ending: false,
            parted: None,
            replaced: false,
            killed_with: None,
            rings: FxHashMap::default(),
            whole_span: None,
            at_peak: (start, 0, 0, None),
            devices: None,
            late: Late::default(),
        }
    }

    /// Heap plus the touched part of its own mappings.
    #[inline(always)]
    pub fn live(&self) -> u64 {
        self.heap + self.mappings.touched_bytes()
    }

    /// Blocks it has acquired so far, and the sum of their bytes.
    #[inline(always)]
    pub fn acquired(&self) -> (u64, u64) {
        (self.row.allocations, self.row.requested_bytes)
    }

    /// Notes what the block or mapping holds that was acquired then.
    pub fn set_part(&mut self, (address, alloc): BlockKey, part: Part) {
        if self.blocks.get(address).is_some_and(|block| block.alloc == alloc) {
            self.blocks.set_part(address, part);
        } else {
            self.mappings.set_part(address, alloc, part);
            self.devices.iter_mut().for_each(|devices| devices.set_part(address, alloc, part));
        }
    }

    /// A call begins that will release this if it succeeds.
    pub fn hold(&mut self, thread: u32, held: Held) {
        self.held.entry(thread).or_default().push(held);
    }

    /// The call that held this returns. What calls inside it held, whose returns were lost, is put back.
    pub fn take_held(&mut self, thread: u32, is_it: impl Fn(&Held) -> bool) -> Option<Held> {
        let calls = self.held.get_mut(&thread)?;
        let place = calls.iter().rposition(is_it)?;
        let inside = calls.split_off(place + 1);
        let held = calls.pop();
        inside.into_iter().for_each(|held| self.give_back(held));
        held
    }

    /// The call failed, or never returned: it released nothing.
    pub fn give_back(&mut self, held: Held) {
        match held {
            Held::Block { block: Some((address, block)), .. } => {
                self.blocks.insert(address, block);
            }
            Held::Block { block: None, .. } => {}
            Held::Pieces { pieces, .. } | Held::Moving { pieces, .. } => self.mappings.restore(pieces),
        }
    }

    /// All heap blocks, also those that a call under way may release.
    pub fn each_block(&self, mut each: impl FnMut(&Block)) {
        let held = self.held.values().flatten().filter_map(|held| match held {
            Held::Block { block, .. } => block.map(|(_, block)| block),
            _ => None,
        });
        self.blocks.iter().map(|(_, block)| block).chain(held).for_each(|block| each(&block));
    }

    /// All pieces of mappings, also those that a call under way may release.
    pub fn each_piece(&self, each: impl FnMut(&Piece)) {
        let held = self.held.values().flatten().flat_map(|held| match held {
            Held::Pieces { pieces, .. } | Held::Moving { pieces, .. } => pieces.as_slice(),
            Held::Block { .. } => &[],
        });
        self.mappings.iter().chain(held).for_each(each);
    }

    /// Nothing is under way any more.
    pub fn give_all_back(&mut self) {
        let held = std::mem::take(&mut self.held);
        held.into_values().flatten().for_each(|held| self.give_back(held));
    }

    /// The thread is gone; a call of its that never returned stays.
    pub fn thread_gone(&mut self, thread: u32) {
        if self.held.get(&thread).is_some_and(Vec::is_empty) {
            self.held.remove(&thread);
        }
    }

    /// A ring of its was seen with this many touched bytes.
    pub fn note_ring(&mut self, slot: usize, touched: u64) {
        let most = self.rings.entry(slot).or_default();
        *most = (*most).max(touched);
        self.row.probe_bytes = self.rings.values().sum();
    }

    /// Adds a block. Returns the one whose release is late, if there was one at this address.
    #[inline(always)]
    pub fn acquire(&mut self, address: u64, block: Block) -> Option<Block> {
        self.heap += block.bytes;
        self.row.allocations += 1;
        self.row.requested_bytes += block.bytes;
        let old = self.blocks.insert(address, block);
        if let Some(old) = old {
            self.heap -= old.bytes;
            self.late.owe(address, block.alloc);
        }
        old
    }

    /// A release of `address` by a thread; a debt older than `patience` ticks is not paid by it.
    #[inline(always)]
    pub fn release(&mut self, thread: u32, address: u64, stamp: u64, patience: u64) -> Released {
        let released = self.release_if_known(address, stamp, patience);
        if matches!(released, Released::Unknown) {
            self.released_unknown(thread, address, stamp);
        }
        released
    }

    #[cold]
    fn released_unknown(&mut self, thread: u32, address: u64, stamp: u64) {
        *self.unknown_releases() += 1;
        // A forked child's is most likely that of an inherited block.
        if self.row.origin != "fork" {
            self.late.met_nothing(address, stamp, thread);
        }
    }

    /// True if releases that met nothing may yet meet their block.
    #[inline(always)]
    pub fn has_early_releases(&self) -> bool {
        self.late.has_early()
    }

    /// The thread whose release met nothing because its stamp is earlier than that of the acquire, which comes only
    /// now.
    pub fn early_release(&mut self, thread: u32, address: u64, stamp: u64, patience: u64) -> Option<u32> {
        let releaser = self.late.take_early(thread, address, stamp, patience)?;
        *self.unknown_releases() -= 1;
        Some(releaser)
    }

    /// The same, without counting one that meets nothing.
    #[inline(always)]
    pub fn release_if_known(&mut self, address: u64, stamp: u64, patience: u64) -> Released {
        if self.late.pay(address, stamp, patience, &mut self.row.unseen_releases) {
            return Released::Paid;
        }
        match self.blocks.remove(address) {
            Some(block) => {
                self.heap -= block.bytes;
                Released::Block(block)
            }
            None => Released::Unknown,
        }
    }

    /// Blocks from before a fork belong to the parent; anything else we should have seen.
    pub fn unknown_releases(&mut self) -> &mut u64 {
        if self.row.origin == "fork" {
            &mut self.row.inherited_releases
        } else {
            &mut self.row.unseen_releases
        }
    }

    /// Counts what will never be paid now.
    pub fn write_off_debts(&mut self) {
        self.row.unseen_releases += self.late.write_off();
    }

    /// Updates the process's own peaks after live bytes grew.
    #[inline(always)]
    pub fn note_peak(&mut self, stamp: u64) {
        let live = self.live();
        self.row.peak_heap_bytes = self.row.peak_heap_bytes.max(self.heap);
        if live > self.row.peak_live_bytes {
            self.row.peak_live_bytes = live;
            let device = self.devices.as_ref().map(|devices| devices.driver());
            self.at_peak = (stamp, self.heap, self.mappings.mapped_bytes(), device);
        }
    }
}

impl Memory for Process {
    fn is_alive(&self, (address, alloc): BlockKey) -> bool {
        self.blocks.get(address).is_some_and(|block| block.alloc == alloc)
            || self.mappings.find(address).is_some_and(|piece| piece.alloc == alloc)
    }

    fn around(&self, address: u64) -> Option<Around> {
        if let Some((start, block)) = self.blocks.around(address) {
            return Some(Around { key: (start, block.alloc), bytes: block.bytes, is_heap: true });
        }
        // Before mappings: a driver reserves the addresses of devices from the host's.
        if let Some((start, held)) = self.devices.as_ref().and_then(|devices| devices.around(address)) {
            let (key, bytes) = ((start, held.block.alloc), held.block.bytes);
            // What a framework hands out is an array's own, as on the heap; what it has from the driver holds many.
            return Some(Around { key, bytes, is_heap: held.is_framework() });
        }
        let piece = self.mappings.find(address)?;
        Some(Around { key: (piece.start, piece.alloc), bytes: piece.bytes, is_heap: false })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process() -> Process {
        let row = ProcessRow { origin: "exec".into(), ..Default::default() };
        Process::new(row, 0)
    }

    fn block(bytes: u64, alloc: u64) -> Block {
        Block {
            bytes,
            alloc,
            thread: 0,
            span: None,
            ordinal: 0,
            kind: Kind::Malloc,
            site: None,
            part: Part::None,
        }
    }

    proptest! {
        /// Blocks handed from thread to thread at one address, some releases late: after the last
        /// release nothing is live, nothing is unseen, and live bytes never count two blocks at once.
        #[test]
        fn late_releases_are_paid(sizes in prop::collection::vec((1..1000u64, any::<bool>()), 1..100)) {
            let mut process = process();
            let mut owed = 0;
            for (at, (bytes, late)) in sizes.iter().enumerate() {
                let stamp = at as u64 * 10;
                process.acquire(0x1000, block(*bytes, stamp));
                prop_assert_eq!(process.heap, *bytes);
                while owed > 0 {
                    prop_assert!(matches!(process.release(0, 0x1000, stamp + 1, 1000), Released::Paid));
                    owed -= 1;
                }
                if *late && at + 1 < sizes.len() {
                    owed += 1;
                } else {
                    prop_assert!(matches!(process.release(0, 0x1000, stamp + 5, 1000), Released::Block(_)));
                }
            }
            prop_assert_eq!((process.heap, process.row.unseen_releases), (0, 0));
            prop_assert_eq!(process.blocks.iter().count(), 0);
        }
    }

    #[test]
    fn a_debt_is_not_paid_for_ever() {
        let mut process = process();
        process.acquire(0x1000, block(10, 0));
        process.acquire(0x1000, block(20, 5));
        assert!(matches!(process.release(0, 0x1000, 5000, 1000), Released::Block(Block { bytes: 20, .. })));
        assert_eq!((process.heap, process.row.unseen_releases), (0, 1));
    }

    #[test]
    fn a_release_stamped_before_its_acquire_is_that_of_another_thread() {
        let mut process = process();
        assert!(matches!(process.release(1, 0x1000, 100, 1000), Released::Unknown));
        assert_eq!(process.row.unseen_releases, 1);
        process.acquire(0x1000, block(10, 101));
        assert_eq!(process.early_release(1, 0x1000, 101, 50), None, "a thread's own stamps are in order");
        assert_eq!(process.early_release(0, 0x2000, 102, 50), None, "not of this block");
        assert_eq!(process.early_release(0, 0x1000, 103, 50), Some(1));
        assert_eq!(process.row.unseen_releases, 0, "it has been seen after all");
        assert_eq!(process.early_release(0, 0x1000, 104, 50), None, "once");
        process.release(1, 0x1000, 200, 1000);
        assert_eq!(process.row.unseen_releases, 0, "the block was there");
        process.release(1, 0x1000, 300, 1000);
        assert_eq!(process.early_release(0, 0x1000, 400, 50), None, "too long ago");
        assert_eq!(process.row.unseen_releases, 1);
    }
}
