//! Garbage collections: their marks, what they free, and what is known of a process's garbage when
//! it ends.

use std::sync::atomic::AtomicU32;

use memtrace_trace::rows::ProcessRow;
use memtrace_wire::event::{Event, Kind};

use super::Fold;
use crate::record::state::blocks::Block;
use crate::record::state::garbage::{Collection, Freed};
use crate::record::state::mappings::Piece;
use crate::record::transport::collection;

impl Fold {
    /// The collector of the writer's process reports something.
    pub(super) fn collector(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer].process;
        let Some(garbage) = &mut self.garbage else { return };
        match event.kind {
            Kind::Collector => garbage.collector(index, event.bytes != 0),
            Kind::CollectBegin => garbage.begin(index, writer, event.stamp),
            _ => {
                if let Some(collection) = garbage.end(index, writer, event.stamp, event.address != 0) {
                    self.settle(index, &collection);
                }
            }
        }
    }

    fn settle(&mut self, index: u32, collection: &Collection) {
        if let Some(garbage) = &mut self.garbage {
            garbage.settle(index, collection);
            self.spans.settle(index, collection);
            self.write_settled_spans();
        }
    }

    #[inline]
    pub(super) fn note_released(&mut self, index: u32, writer: u32, block: &Block) {
        if let Some(garbage) = &mut self.garbage {
            garbage.released(index, writer, freed(block));
        }
    }

    pub(super) fn note_unmapped(&mut self, index: u32, writer: u32, pieces: &[Piece]) {
        if let Some(garbage) = &mut self.garbage {
            pieces.iter().for_each(|piece| garbage.released(index, writer, touched(piece)));
        }
    }

    /// The process has ended; its blocks are still there.
    pub(super) fn garbage_ended(&mut self, index: u32, stamp: u64) {
        let process = &self.processes[index];
        let left = process
            .heap
            .blocks()
            .iter()
            .map(|(_, block)| freed(&block))
            .chain(process.mappings.iter().map(touched));
        if let Some(garbage) = &mut self.garbage {
            let collection = garbage.process_ended(index, stamp, left);
            self.settle(index, &collection);
        }
    }

    /// Requests a collection of the writer, which waits on `word`, if its process may have much
    /// garbage.
    pub fn request_collection(&mut self, writer: u32, word: &AtomicU32, now: u64) {
        let index = self.threads[writer].process;
        let live = self.processes[index].live();
        let Some(garbage) = &mut self.garbage else { return };
        if garbage.is_wanted(index, live, now) && collection::request(word) {
            garbage.requested(index, now);
        }
    }

    /// The process's row with what is known of its garbage.
    pub fn with_garbage(&self, row: ProcessRow) -> ProcessRow {
        let Some(garbage) = &self.garbage else { return row };
        let known = garbage.known(row.process);
        let (collections, ticks) = known.collections;
        ProcessRow {
            gc_independent_bytes: Some(known.lower),
            gc_independent_upper_bytes: Some(row.peak_live_bytes),
            garbage_at_peak_bytes: Some(known.at_peak),
            collections,
            collect_ns: self.clock.ns_of(ticks),
            ..row
        }
    }
}

fn freed(block: &Block) -> Freed {
    Freed {
        alloc: block.alloc,
        thread: block.thread,
        live: block.bytes,
        bytes: block.bytes,
        span: block.span,
    }
}

fn touched(piece: &Piece) -> Freed {
    let bytes = if piece.is_writable_memory() { piece.bytes } else { 0 };
    Freed { alloc: piece.alloc, thread: piece.thread, live: piece.touched, bytes, span: piece.span }
}
