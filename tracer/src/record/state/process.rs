//! One process image: its memory, its lifetime, and its row.

use std::collections::BTreeSet;

use memtrace_trace::rows::ProcessRow;

use super::blocks::{Block, Part, Site};
use super::devices::Devices;
use super::heap::Heap;
use super::in_flight::{Calls, InFlight};
use super::large::LargeBlocks;
use super::mappings::{Mappings, Piece};
use super::memory::{Around, BlockKey, Memory};
use super::pages::Pages;
use super::residency::Residency;

/// What a process retained at one time, and from where.
#[derive(Debug, Default, Clone)]
pub struct Retained {
    /// Live bytes.
    pub live: u64,
    /// Live bytes by innermost operator, most first; blocks outside spans are left out.
    pub operators: Vec<(String, u64)>,
    /// Live bytes by site, most first; blocks without one are left out.
    pub sites: Vec<(Site, u64)>,
}

/// The end of a process's program, before it tidies up.
#[derive(Debug, Clone, Copy)]
pub struct MainEnd {
    /// When.
    pub stamp: u64,
    /// Live bytes then.
    pub live: u64,
}

/// A Python interpreter, as the probe describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interpreter {
    /// How far it can be read: one of the wire's `PYTHON_` constants.
    pub reading: u64,
    /// Major version << 8 | minor version; 0 if that is not known.
    pub version: u32,
}

/// A call that was refused memory.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// When.
    pub stamp: u64,
    /// How much it requested.
    pub bytes: u64,
    /// The process's limit on address space.
    pub limit: u64,
    /// Where.
    pub site: Option<Site>,
    /// What was live then.
    pub retained: Retained,
}

/// What a process had at the peak of its live bytes.
#[derive(Debug, Clone, Copy)]
pub struct AtPeak {
    /// Stamp of the peak.
    pub stamp: u64,
    /// Heap bytes.
    pub heap: u64,
    /// Mapped bytes.
    pub mapped: u64,
    /// Driver bytes of devices, if it has used one.
    pub device: Option<u64>,
}

/// A process image.
pub struct Process {
    /// Its row; times are filled in when rows are written.
    pub row: ProcessRow,
    /// First stamp.
    pub start: u64,
    /// Stamp of its end, once it was seen to have ended.
    pub end: Option<u64>,
    /// Its heap.
    pub heap: Heap,
    /// What it mapped.
    pub mappings: Mappings,
    /// Calls under way.
    calls: Calls,
    /// Its pid in its own namespace and its first stamp, if a probe is in it.
    pub image: Option<(u32, u64)>,
    /// Its threads that have not left, by index.
    pub threads: BTreeSet<u32>,
    /// Threads that still have a ring.
    pub writers: u32,
    /// The image that this one replaced by exec; it ends with this one's first event.
    pub replaces: Option<u32>,
    /// It lives in a pid namespace of its own.
    pub namespaced: bool,
    /// Its pid in /proc, once that was looked up; `None` in there if /proc does not show it.
    pub shown: Option<Option<u32>>,
    /// Resident memory.
    pub residency: Residency,
    /// Pages that faults have touched, where there is a kernel side.
    pub pages: Pages,
    /// Large heap blocks and what faults have touched of them.
    pub large: LargeBlocks,
    /// It announced that it is about to exit or to execute another program; one that is killed does
    /// not.
    pub announced_end: bool,
    /// Stamp of its parting: since then, its bytes do not count for all processes together.
    pub parted: Option<u64>,
    /// Another program took its place under its pid.
    pub replaced: bool,
    /// What it retained when it ended, if it did not announce that.
    pub killed_with: Option<Retained>,
    /// Calls that were refused memory.
    pub refusals: Vec<Refusal>,
    /// The end of its program.
    pub main_end: Option<MainEnd>,
    /// Its Python interpreter, if the probe has met one.
    pub interpreter: Option<Interpreter>,
    /// The span of `--span`.
    pub whole_span: Option<u32>,
    /// What there was at the peak of live bytes.
    pub at_peak: AtPeak,
    /// What it has of devices, once it has used one.
    pub devices: Option<Box<Devices>>,
}

impl Process {
    /// An image that was just met.
    pub fn new(row: ProcessRow, start: u64) -> Process {
        Process {
            row,
            start,
            end: None,
            heap: Heap::default(),
            mappings: Mappings::default(),
            calls: Calls::default(),
            image: None,
            threads: BTreeSet::new(),
            writers: 0,
            replaces: None,
            namespaced: false,
            shown: None,
            residency: Residency::default(),
            pages: Pages::default(),
            large: LargeBlocks::default(),
            announced_end: false,
            parted: None,
            replaced: false,
            killed_with: None,
            refusals: Vec::new(),
            main_end: None,
            interpreter: None,
            whole_span: None,
            at_peak: AtPeak { stamp: start, heap: 0, mapped: 0, device: None },
            devices: None,
        }
    }

    /// Heap plus the touched part of its own mappings.
    #[inline(always)]
    pub fn live(&self) -> u64 {
        self.heap.bytes() + self.mappings.touched_bytes()
    }

    /// Blocks it has acquired so far, and the sum of their bytes.
    #[inline(always)]
    pub fn acquired(&self) -> (u64, u64) {
        (self.row.allocations, self.row.requested_bytes)
    }

    /// Notes what the block or mapping contains that was acquired then.
    pub fn set_part(&mut self, (address, alloc): BlockKey, part: Part) {
        if self.heap.blocks().get(address).is_some_and(|block| block.alloc == alloc) {
            self.heap.blocks_mut().set_part(address, part);
        } else {
            self.mappings.set_part(address, alloc, part);
            self.devices.iter_mut().for_each(|devices| devices.set_part(address, alloc, part));
        }
    }

    /// A call begins that will release this if it succeeds.
    pub fn begin_call(&mut self, thread: u32, call: InFlight) {
        self.calls.begin(thread, call);
    }

    /// The call that `is_it` returns.
    pub fn finish_call(&mut self, thread: u32, is_it: impl Fn(&InFlight) -> bool) -> Option<InFlight> {
        let finished = self.calls.finish(thread, is_it)?;
        finished.lost.into_iter().for_each(|call| self.restore(call));
        Some(finished.call)
    }

    /// The call failed, or never returned: it released nothing.
    pub fn restore(&mut self, call: InFlight) {
        match call {
            InFlight::Realloc { block: Some((address, block)), .. } => self.heap.restore(address, block),
            InFlight::Realloc { block: None, .. } => {}
            InFlight::Unmap { pieces, .. } | InFlight::Remap { pieces, .. } => self.mappings.restore(pieces),
        }
    }

    /// All heap blocks, also those that a call under way may release.
    pub fn each_block(&self, mut each: impl FnMut(&Block)) {
        let live = self.heap.blocks().iter().map(|(_, block)| block);
        live.chain(self.calls.blocks()).for_each(|block| each(&block));
    }

    /// All pieces of mappings, also those that a call under way may release.
    pub fn each_piece(&self, each: impl FnMut(&Piece)) {
        self.mappings.iter().chain(self.calls.pieces()).for_each(each);
    }

    /// No call is under way any more: those that never returned have released nothing.
    pub fn restore_all(&mut self) {
        self.calls.take_all().for_each(|call| self.restore(call));
    }

    /// The thread is gone.
    pub fn thread_gone(&mut self, thread: u32) {
        self.calls.thread_gone(thread);
    }

    /// A ring of its was seen with this many touched bytes.
    pub fn note_ring(&mut self, ring: usize, touched: u64) {
        self.row.probe_bytes = self.residency.note_ring(ring, touched);
    }

    /// Adds a block. Returns the one whose release is late, if there was one at this address.
    #[inline(always)]
    pub fn acquire(&mut self, address: u64, block: Block) -> Option<Block> {
        self.row.allocations += 1;
        self.row.requested_bytes += block.bytes;
        self.heap.acquire(address, block)
    }

    /// Updates the process's own peaks after live bytes grew.
    #[inline(always)]
    pub fn note_peak(&mut self, stamp: u64) {
        let live = self.live();
        self.row.peak_heap_bytes = self.row.peak_heap_bytes.max(self.heap.bytes());
        if live > self.row.peak_live_bytes {
            self.row.peak_live_bytes = live;
            let device = self.devices.as_ref().map(|devices| devices.driver());
            let (heap, mapped) = (self.heap.bytes(), self.mappings.mapped_bytes());
            self.at_peak = AtPeak { stamp, heap, mapped, device };
        }
    }
}

impl Memory for Process {
    fn is_alive(&self, (address, alloc): BlockKey) -> bool {
        self.heap.blocks().get(address).is_some_and(|block| block.alloc == alloc)
            || self.mappings.find(address).is_some_and(|piece| piece.alloc == alloc)
    }

    fn around(&self, address: u64) -> Option<Around> {
        if let Some((start, block)) = self.heap.blocks().around(address) {
            return Some(Around { key: (start, block.alloc), bytes: block.bytes, is_heap: true });
        }
        // Before mappings: a driver reserves the addresses of devices from the host's.
        if let Some((start, found)) = self.devices.as_ref().and_then(|devices| devices.around(address)) {
            let (key, bytes) = ((start, found.block.alloc), found.block.bytes);
            // A framework's block is one array's, as on the heap; what the framework has from the
            // driver is that of many.
            return Some(Around { key, bytes, is_heap: found.is_framework() });
        }
        let piece = self.mappings.find(address)?;
        Some(Around { key: (piece.start, piece.alloc), bytes: piece.bytes, is_heap: false })
    }
}
