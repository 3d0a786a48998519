//! Mapping calls. What a call will unmap or move is held from its begin to its end: until then the addresses
//! may be reused but the bytes stay live, and a call that fails puts everything back.

use memtrace_trace::rows::Kind;
use memtrace_wire::event::{Event, FAILED};
use rustc_hash::FxHashSet;

use super::Fold;
use crate::record::mappings::Piece;
use crate::record::spans::BlockKey;

impl Fold {
    /// A mapping call begins: what it will unmap or move is held until it returns.
    pub(super) fn map_begin(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let before = process.mappings.touched_bytes();
        let pieces = process.mappings.take(event.address, event.bytes);
        self.total.live -= before - process.mappings.touched_bytes();
        process.held.entry(writer).or_default().pieces = pieces;
        self.settle(index);
    }

    fn held_pieces(&mut self, writer: u32) -> Vec<Piece> {
        let index = self.threads[writer as usize].process;
        let held = self.processes[index as usize].held.get_mut(&writer);
        held.map(|held| std::mem::take(&mut held.pieces)).unwrap_or_default()
    }

    fn restore(&mut self, writer: u32, pieces: Vec<Piece>) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let before = process.mappings.touched_bytes();
        process.mappings.restore(pieces);
        self.total.live += process.mappings.touched_bytes() - before;
        self.settle(index);
    }

    fn end_pieces(&mut self, writer: u32, pieces: &[Piece], stamp: u64) {
        let index = self.threads[writer as usize].process;
        for piece in pieces {
            self.write_piece(index, piece, Some(stamp), &FxHashSet::default());
            if piece.is_writable_memory() {
                self.spans.released(writer, piece.span, piece.alloc, piece.bytes);
            }
        }
    }

    pub(super) fn map_end(&mut self, writer: u32, event: Event) {
        let pieces = self.held_pieces(writer);
        if event.bytes == FAILED {
            return self.restore(writer, pieces);
        }
        self.end_pieces(writer, &pieces, event.stamp);
        self.map(writer, event, mapping_kind(event.extra), 0);
    }

    pub(super) fn unmap_end(&mut self, writer: u32, event: Event) {
        let pieces = self.held_pieces(writer);
        if event.bytes == FAILED {
            self.restore(writer, pieces)
        } else {
            self.end_pieces(writer, &pieces, event.stamp)
        }
    }

    pub(super) fn remap_end(&mut self, writer: u32, event: Event) {
        let pieces = self.held_pieces(writer);
        let kind = pieces.first().map_or(Kind::MapAnonymous, |piece| piece.kind);
        let touched = pieces.iter().map(|piece| piece.touched).sum::<u64>().min(event.bytes);
        if event.bytes == FAILED {
            return self.restore(writer, pieces);
        }
        if event.extra & libc::MREMAP_DONTUNMAP as u64 != 0 {
            self.restore(writer, pieces);
        } else {
            self.end_pieces(writer, &pieces, event.stamp);
        }
        self.map(writer, event, kind, touched);
    }

    fn map(&mut self, writer: u32, event: Event, kind: Kind, moved: u64) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let touched = process.mappings.touched_bytes();
        // Whatever still lies there was unmapped unseen (raw system calls).
        let unseen = process.mappings.take(event.address, event.bytes);
        let counts = matches!(kind, Kind::MapAnonymous | Kind::MapShared);
        let key: BlockKey = (event.address, event.stamp);
        let (span, ordinal) =
            self.spans.acquired(writer, kind, key, event.bytes, counts, |key| process.is_alive(key));
        let site = self.sites.acquired(writer, event.address, event.bytes);
        process.mappings.insert(Piece {
            start: event.address,
            bytes: event.bytes,
            alloc: event.stamp,
            thread: writer,
            span,
            ordinal,
            kind,
            site,
            touched: moved,
        });
        process.row.allocations += 1;
        process.row.requested_bytes += event.bytes;
        process.row.peak_mapped_bytes = process.row.peak_mapped_bytes.max(process.mappings.mapped_bytes());
        self.total.live = self.total.live + process.mappings.touched_bytes() - touched;
        self.end_pieces(writer, &unseen, event.stamp);
        self.note_peak(index, event.stamp);
    }

    /// Mappings of a process were measured: `measure` tells how much of each is in memory.
    pub fn measure(&mut self, index: u32, stamp: u64, measure: impl FnMut(&Piece) -> Option<u64>) {
        let process = &mut self.processes[index as usize];
        let before = process.mappings.touched_bytes();
        process.mappings.measure(measure);
        self.total.live = self.total.live + process.mappings.touched_bytes() - before;
        self.note_peak(index, stamp);
    }
}

fn mapping_kind(extra: u64) -> Kind {
    let (protection, flags) = ((extra >> 32) as i32, extra as u32 as i32);
    if flags & libc::MAP_ANONYMOUS == 0 {
        Kind::MapFile
    } else if protection == libc::PROT_NONE {
        Kind::MapReserved
    } else if flags & libc::MAP_PRIVATE != 0 {
        Kind::MapAnonymous
    } else {
        Kind::MapShared
    }
}
