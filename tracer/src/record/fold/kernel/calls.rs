//! System calls of processes that no probe is in are folded as what a probe would have sent.

use memtrace_ebpf::{Call, Event as KernelEvent};
use memtrace_trace::rows::KernelEventRow;
use memtrace_wire::arch::page::bytes as page_bytes;
use memtrace_wire::event::{Event, Kind as Wire};

use super::Fold;
use crate::record::kernel::{MapCall, length_at};
use crate::record::procfs::status::break_of;

/// A thread of such a process, and when it made a call.
#[derive(Debug, Clone, Copy)]
struct Caller {
    process: u32,
    writer: u32,
    /// CLOCK_MONOTONIC.
    ns: u64,
}

impl Fold {
    /// Folds a call. Its row, unless a probe reports the process's calls.
    pub(super) fn call(
        &mut self,
        event: &KernelEvent,
        call: &Call,
        mut row: KernelEventRow,
    ) -> Option<KernelEventRow> {
        let process = self.uninstrumented_process(event.pid)?;
        row.process = Some(process);
        let stamp = self.clock.stamp_of_monotonic(event.ns);
        let Some(done) = MapCall::of(call, stamp, &mut row) else { return Some(row) };
        self.fold_unfinished(stamp);
        let ns = self.clock.of_monotonic(event.ns);
        let writer = self.uninstrumented_thread(process, event.tid, ns);
        let caller = Caller { process, writer, ns: event.ns };
        match done {
            MapCall::Break { end, start } => self.moved_break(caller, stamp, end, start),
            MapCall::Segment { id, bytes } => {
                if let Some(kernel) = &mut self.kernel {
                    kernel.note_segment(id, bytes);
                }
            }
            MapCall::Attach { id, event } => {
                let known = self.kernel.as_ref().and_then(|kernel| kernel.segment(id));
                let bytes = known.unwrap_or_else(|| length_at(row.pid, event.address));
                let bytes = bytes.next_multiple_of(page_bytes());
                (row.address, row.bytes) = (Some(event.address), Some(bytes));
                self.map_end(writer, Event { bytes, ..event });
            }
            other => self.mapped_or_unmapped(caller, other),
        }
        Some(row)
    }

    fn mapped_or_unmapped(&mut self, caller: Caller, call: MapCall) {
        let writer = caller.writer;
        match call {
            MapCall::Map(event) => {
                self.expect_release(caller, event.address, event.bytes);
                self.map_end(writer, event);
            }
            MapCall::MapFixed(event) => {
                self.map_begin(writer, Event { kind: Wire::MapBegin, ..event });
                self.map_end(writer, event);
            }
            MapCall::Unmap(event) if self.is_settled(caller, &event) => {}
            MapCall::Unmap(event) => self.unmap(writer, event),
            MapCall::Remap { from, to } => {
                self.remap_begin(writer, from);
                self.remap_end(writer, to);
            }
            MapCall::Detach(event) => {
                self.map_begin(writer, Event { kind: Wire::UnmapBegin, ..event });
                self.unmap_end(writer, Event { bytes: 1, ..event });
            }
            _ => {}
        }
    }

    fn unmap(&mut self, writer: u32, event: Event) {
        self.map_begin(writer, Event { kind: Wire::UnmapBegin, ..event });
        self.unmap_end(writer, event);
    }

    /// True if the range was mapped anew before its unmapping was reported, and ended by that.
    fn is_settled(&mut self, caller: Caller, event: &Event) -> bool {
        let range = event.address..event.address.saturating_add(event.bytes);
        let kernel = self.kernel.as_mut();
        kernel.is_some_and(|kernel| kernel.releases().settle(caller.process, &range, caller.ns))
    }

    /// The kernel gives out no place that is taken: what is known to lie there has been unmapped,
    /// as is yet to be reported.
    fn expect_release(&mut self, caller: Caller, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let taken = self.overlap(caller.process, start, bytes);
        if let (Some(taken), Some(kernel)) = (taken, &mut self.kernel) {
            let range = taken.start.max(start)..taken.end.min(end);
            kernel.releases().expect(caller.process, range, caller.ns);
        }
    }

    fn moved_break(&mut self, caller: Caller, stamp: u64, now: u64, start: u64) {
        let pid = self.processes[caller.process].row.pid;
        let Some(image) = self.image_mut(pid) else { return };
        // A program that was running when it was first seen has moved it before.
        let first = if image.executed { Some(start.next_multiple_of(page_bytes())) } else { break_of(pid) };
        let before = image.program_break.or(first).unwrap_or(now);
        image.program_break = Some(now);
        match MapCall::of_break(before, now, stamp) {
            MapCall::Map(event) => self.map_end(caller.writer, event),
            MapCall::Unmap(event) => self.unmap(caller.writer, event),
            _ => {}
        }
    }
}
