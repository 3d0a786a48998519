//! Mapping calls. What a call will unmap or move is in flight from its begin to its end: until then
//! the addresses may be reused but the bytes stay live, and a call that fails restores everything.

use std::ops::Range;

use memtrace_trace::rows::Kind;
use memtrace_wire::arch::page::bytes as page_bytes;
use memtrace_wire::event::{ARENA, BREAK, Event, FAILED};
use rustc_hash::FxHashSet;

use super::Fold;
use crate::record::spans::Acquired;
use crate::record::state::blocks::Part;
use crate::record::state::in_flight::InFlight;
use crate::record::state::mappings::{Mappings, Piece};
use crate::record::state::memory::{BlockKey, Memory};
use crate::record::state::shared::Share;

/// What mremap(2) has brought along of a mapping that it moved.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    /// Touched bytes of it.
    touched: u64,
    /// They were measured.
    measured: bool,
    /// What it maps of an object.
    share: Option<Share>,
}

impl Fold {
    /// A mapping call begins: what it will unmap or move is in flight until it returns.
    pub(super) fn map_begin(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer].process;
        self.note_footprint(index);
        let pieces = self.change_mappings(index, |mappings| match event.bytes {
            0 => mappings.begin_segment_release(event.address),
            bytes => mappings.begin_release(event.address, bytes),
        });
        self.process_mut_of(writer).begin_call(writer, InFlight::Unmap { address: event.address, pieces });
    }

    /// The same for `mremap`; without a length it only makes a second mapping of what lies there.
    pub(super) fn remap_begin(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer].process;
        let mappings = &self.processes[index].mappings;
        // What a forked child moves of its inheritance is not known: memory, most likely.
        let kind = mappings.find(event.address).map_or(Kind::MapAnonymous, |piece| piece.kind);
        let pieces = match event.bytes {
            0 => Vec::new(),
            bytes => self.change_mappings(index, |mappings| mappings.begin_release(event.address, bytes)),
        };
        self.process_mut_of(writer).begin_call(writer, InFlight::Remap { from: event.address, kind, pieces });
    }

    /// What a call that follows will release was in memory.
    pub(super) fn touched(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer].process;
        self.change_mappings(index, |mappings| {
            mappings.note_touched(event.address, event.bytes, event.extra);
        });
        self.saw_objects(index, &event);
        self.note_footprint(index);
        self.note_peak(index, event.stamp);
        let dropped = self.change_mappings(index, Mappings::forget_reserved);
        let pages = &mut self.processes[index].pages;
        dropped.into_iter().for_each(|part| pages.remove(part.start, part.end - part.start));
    }

    /// Does something to a process's mappings and keeps the sums.
    pub(super) fn change_mappings<R>(&mut self, index: u32, change: impl FnOnce(&mut Mappings) -> R) -> R {
        let process = &mut self.processes[index];
        let before = process.mappings.touched_bytes();
        let result = change(&mut process.mappings);
        if process.parted.is_none() {
            self.totals.change_touched(before, process.mappings.touched_bytes());
        }
        self.settle_sites(index);
        result
    }

    /// Applies to their sites what mappings of a process have changed.
    pub(super) fn settle_sites(&mut self, index: u32) {
        let process = &mut self.processes[index];
        let counts = process.parted.is_none();
        for (site, bytes) in process.mappings.changes.drain(..).filter(|_| counts) {
            self.sites.accounts_mut().change(site, bytes);
        }
    }

    /// What a call that returns has released; a failed one restores it.
    fn unmapped_pieces(&mut self, writer: u32, event: Event) -> Option<Vec<Piece>> {
        let process = self.process_mut_of(writer);
        let is_it =
            |call: &InFlight| matches!(call, InFlight::Unmap { address, .. } if *address == event.address);
        let call = process.finish_call(writer, is_it)?;
        if event.bytes == FAILED {
            process.restore(call);
            return None;
        }
        match call {
            InFlight::Unmap { pieces, .. } => Some(pieces),
            _ => None,
        }
    }

    /// The call that took these pieces out has returned.
    fn finish_release(&mut self, writer: u32, pieces: &[Piece], stamp: u64) {
        let index = self.threads[writer].process;
        self.change_mappings(index, |mappings| mappings.finish_release(pieces));
        self.end_pieces(writer, pieces, stamp);
        let pages = &mut self.processes[index].pages;
        pieces.iter().for_each(|piece| pages.remove(piece.start, piece.bytes));
    }

    pub(super) fn end_pieces(&mut self, writer: u32, pieces: &[Piece], stamp: u64) {
        let index = self.threads[writer].process;
        for piece in pieces {
            self.write_piece(index, piece, Some(stamp), &FxHashSet::default());
            if piece.is_writable_memory() {
                self.spans.released(writer, piece.span, piece.alloc, piece.bytes);
            }
        }
        self.pass_on(pieces.iter().filter_map(|piece| piece.share));
    }

    pub(super) fn map_end(&mut self, writer: u32, event: Event) {
        if event.extra & libc::MAP_FIXED as u64 != 0
            && let Some(pieces) = self.unmapped_pieces(writer, event)
        {
            self.finish_release(writer, &pieces, event.stamp);
        }
        let share = self.shared.take_announced(writer);
        if event.bytes != FAILED {
            self.map(writer, event, mapping_kind(event.extra), Moved { share, ..Moved::default() });
        }
    }

    pub(super) fn unmap_end(&mut self, writer: u32, event: Event) {
        if let Some(pieces) = self.unmapped_pieces(writer, event) {
            self.note_unmapped(self.threads[writer].process, writer, &pieces);
            self.finish_release(writer, &pieces, event.stamp);
        }
    }

    pub(super) fn remap_end(&mut self, writer: u32, event: Event) {
        let process = self.process_mut_of(writer);
        let call = process.finish_call(writer, |call| matches!(call, InFlight::Remap { .. }));
        if event.bytes == FAILED {
            return call.into_iter().for_each(|call| process.restore(call));
        }
        let (from, kind, pieces) = match call {
            Some(InFlight::Remap { from, kind, pieces }) => (from, kind, pieces),
            _ => (event.address, Kind::MapAnonymous, Vec::new()),
        };
        if event.extra & libc::MREMAP_DONTUNMAP as u64 != 0 {
            // The pages have moved, the old range stays mapped and is empty (mremap(2), Linux 5.7).
            let emptied = pieces
                .iter()
                .map(|piece| Piece { touched: 0, faulted: 0, measured: true, ..*piece })
                .collect();
            let index = self.threads[writer].process;
            self.change_mappings(index, |mappings| {
                mappings.finish_release(&pieces);
                mappings.put_all(emptied);
            });
        } else {
            self.finish_release(writer, &pieces, event.stamp);
        }
        if is_one_mapping(&pieces) {
            let touched = pieces.iter().map(|piece| piece.touched).sum::<u64>().min(event.bytes);
            let measured = !pieces.is_empty() && pieces.iter().all(|piece| piece.measured);
            let share = pieces.first().and_then(|piece| piece.share);
            return self.map(writer, event, kind, Moved { touched, measured, share });
        }
        // Several mappings keep their kinds and gaps. (Linux 6.17 moves such a range; all kernels
        // shrink one.)
        for piece in pieces {
            let offset = piece.start.saturating_sub(from);
            if offset < event.bytes {
                let bytes = piece.bytes.min(event.bytes - offset);
                let part = Event { address: event.address + offset, bytes, ..event };
                let touched = piece.touched.min(bytes);
                let moved = Moved { touched, measured: piece.measured, share: piece.share };
                self.map(writer, part, piece.kind, moved);
            }
        }
    }

    /// A mapping is there, new or moved.
    fn map(&mut self, writer: u32, event: Event, kind: Kind, moved: Moved) {
        let index = self.threads[writer].process;
        // What still lies there was unmapped unseen (raw system calls), or by MREMAP_FIXED.
        let unseen = self.change_mappings(index, |mappings| mappings.take(event.address, event.bytes));
        let process = &mut self.processes[index];
        process.pages.remove(event.address, event.bytes);
        let key: BlockKey = (event.address, event.stamp);
        let Moved { touched, measured, share } = moved;
        let share = self.share(index, share, event.bytes);
        let kind = match share {
            Some(share) if share.counts => Kind::MapShared,
            Some(_) => Kind::MapFile,
            None => kind,
        };
        let process = &mut self.processes[index];
        let counts = kind.is_own_memory();
        let site = self.sites.mapped(writer, event.stack, event.bytes);
        let acquired = Acquired { key, bytes: event.bytes, kind, counts, site };
        let (span, ordinal) = self.spans.acquired(writer, &acquired, |key| process.is_alive(key));
        let before = process.acquired();
        process.row.allocations += 1;
        process.row.requested_bytes += event.bytes;
        self.note_unattributed(index, writer, before);
        let piece = Piece {
            start: event.address,
            bytes: event.bytes,
            alloc: event.stamp,
            thread: writer,
            span,
            ordinal,
            kind,
            site,
            touched,
            faulted: touched,
            measured,
            part: Part::None,
            share,
        };
        self.change_mappings(index, |mappings| mappings.insert(piece));
        let process = &mut self.processes[index];
        process.row.peak_mapped_bytes = process.row.peak_mapped_bytes.max(process.mappings.mapped_bytes());
        self.end_pieces(writer, &unseen, event.stamp);
        self.note_peak(index, event.stamp);
    }

    /// Pages were touched for the first time, from a stamp on.
    pub fn faulted(&mut self, index: u32, address: u64, bytes: u64, begun: u64, stamp: u64) {
        // What came to lie there later was not touched by that; clocks are not as exact as this
        // time is short.
        const LATER_NS: u64 = 10_000;
        let later = begun.saturating_add(self.clock.ticks(LATER_NS));
        let process = &self.processes[index];
        let end = address.saturating_add(bytes);
        if process.end.is_some() || process.mappings.between(address, end).any(|piece| piece.alloc > later) {
            return;
        }
        let mut pages = std::mem::take(&mut self.processes[index].pages);
        self.change_mappings(index, |mappings| {
            mappings.touch(address, bytes, |start, bytes| pages.add(start, bytes));
        });
        // Those of the heap are remembered too.
        self.processes[index].large.touch(address, bytes, |start, bytes| pages.add(start, bytes));
        pages.add(address, bytes);
        self.processes[index].pages = pages;
        self.touch_objects(index, address, bytes, stamp);
        self.note_peak(index, stamp);
    }

    /// A mapping from before the recording began.
    pub fn insert_piece(&mut self, index: u32, piece: Piece) {
        self.change_mappings(index, |mappings| mappings.insert(piece));
        let process = &mut self.processes[index];
        process.row.peak_mapped_bytes = process.row.peak_mapped_bytes.max(process.mappings.mapped_bytes());
        process.row.allocations += 1;
        process.row.requested_bytes += piece.bytes;
        self.note_peak(index, piece.alloc);
    }

    /// The part of a range in which something is known to be mapped, from the first piece's begin
    /// to the last one's end.
    pub(super) fn overlap(&self, index: u32, start: u64, bytes: u64) -> Option<Range<u64>> {
        let end = start.saturating_add(bytes.checked_next_multiple_of(page_bytes()).unwrap_or(u64::MAX));
        let mut hit = self.processes[index].mappings.between(start, end);
        let first = hit.next()?;
        let last = hit.last().unwrap_or(first);
        Some(first.start..last.end())
    }
}

/// True for what the kernel may have merged: pieces of one kind without gaps.
fn is_one_mapping(pieces: &[Piece]) -> bool {
    pieces.windows(2).all(|pair| pair[0].kind == pair[1].kind && pair[0].end() == pair[1].start)
}

fn mapping_kind(extra: u64) -> Kind {
    let (protection, flags) = ((extra >> 32) as u8 as i32, extra as u32 as i32);
    if extra & ARENA != 0 {
        Kind::MapArena
    } else if extra & BREAK != 0 {
        Kind::MapBreak
    } else if flags & libc::MAP_ANONYMOUS == 0 {
        let writes_to_copies =
            flags & libc::MAP_TYPE == libc::MAP_PRIVATE && protection & libc::PROT_WRITE != 0;
        if writes_to_copies { Kind::MapFilePrivate } else { Kind::MapFile }
    } else if protection == libc::PROT_NONE {
        Kind::MapReserved
    } else if flags & libc::MAP_PRIVATE != 0 {
        Kind::MapAnonymous
    } else {
        Kind::MapShared
    }
}
