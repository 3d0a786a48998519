//! mprotect(2): address space that was reserved becomes memory, and memory address space again.

use memtrace_trace::rows::Kind;
use memtrace_wire::event::Event;

use super::Fold;
use crate::record::spans::Acquired;
use crate::record::state::blocks::Part;
use crate::record::state::mappings::Piece;
use crate::record::state::memory::Memory;

impl Fold {
    /// A range has become writable, or may not be accessed any more: what of it was a reservation
    /// counts as a mapping made now, and the other way round. All else stays what it is: pages that
    /// guard others are still the program's, and of what a child has inherited nothing counts.
    pub(super) fn protected(&mut self, writer: u32, event: Event) {
        let opens = event.extra as i32 & libc::PROT_WRITE != 0;
        let (from, kind) = match opens {
            true => (Kind::MapReserved, Kind::MapCommitted),
            false => (Kind::MapCommitted, Kind::MapReserved),
        };
        let index = self.threads[writer].process;
        self.note_footprint(index);
        let taken =
            self.change_mappings(index, |mappings| mappings.take_of(from, event.address, event.bytes));
        let Some(first) = taken.first() else { return };
        self.end_pieces(writer, &taken, event.stamp);
        let process = &mut self.processes[index];
        if !opens {
            taken.iter().for_each(|piece| process.pages.remove(piece.start, piece.bytes));
        }
        let bytes: u64 = taken.iter().map(|piece| piece.bytes).sum();
        let site = self.sites.mapped(writer, event.stack, bytes);
        let key = (first.start, event.stamp);
        let acquired = Acquired { key, bytes, kind, counts: kind.is_own_memory(), site };
        let (span, ordinal) = self.spans.acquired(writer, &acquired, |key| process.is_alive(key));
        let before = process.acquired();
        process.row.allocations += 1;
        process.row.requested_bytes += bytes;
        self.note_unattributed(index, writer, before);
        let made = Piece { alloc: event.stamp, thread: writer, span, ordinal, kind, site, ..*first };
        self.change_mappings(index, |mappings| {
            for piece in &taken {
                // What a snapshot has found of a reservation is there now too; what may not be
                // accessed is not live, unless the next one finds it.
                let (touched, faulted) = if opens { (piece.touched, piece.faulted) } else { (0, 0) };
                let (start, bytes) = (piece.start, piece.bytes);
                let measured = false;
                mappings.insert(Piece { start, bytes, touched, faulted, measured, part: Part::None, ..made });
            }
        });
        self.note_peak(index, event.stamp);
    }
}
