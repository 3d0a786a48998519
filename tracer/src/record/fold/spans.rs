//! Spans begin, end, and move between threads; what their arrays lie in is noted. Those that have ended are
//! written.

use memtrace_wire::event::{Event, Kind as Wire};
use rustc_hash::FxHashSet;

use super::Fold;
use crate::record::state::blocks::Part;
use crate::record::state::footprint::Footprint;
use crate::record::state::garbage::Garbage;
use crate::record::state::memory::Memory;

impl Fold {
    pub(super) fn span_begin(&mut self, writer: u32, event: Event, text: &[u8]) {
        let index = self.threads[writer].process;
        let process = &mut self.processes[index];
        // Arrays may begin anywhere in their blocks.
        process.heap.blocks_mut().keep_order();
        let span = self.spans.begin(index, writer, event.address, event.stamp, text);
        for start in self.spans.inputs(span).iter().filter_map(|array| array.range()).map(|range| range.start)
        {
            if let Some(block) = process.around(start) {
                process.set_part(block.key, Part::Input);
            }
        }
        let devices = self.processes[index].devices.as_ref();
        devices.into_iter().for_each(|devices| self.spans.devices_before(span, devices.driver()));
        self.note_resident_before(index, span);
    }

    pub(super) fn span_end(&mut self, writer: u32, event: Event, text: &[u8]) {
        let index = self.threads[writer].process;
        let process = &mut self.processes[index];
        let outputs = self.spans.end((index, writer), event.address, event.stamp, text, process);
        outputs.into_iter().for_each(|block| process.set_part(block, Part::Output));
        self.write_settled_spans();
    }

    /// Writes the rows of spans that will change no more: they leave memory.
    pub(super) fn write_settled_spans(&mut self) {
        let Fold { spans, clock, sites, rows, .. } = self;
        while let Some(row) = spans.next_settled(|stamp| clock.ns(stamp), |site| sites.id(site)) {
            rows.span(row);
        }
        if self.spans.is_crowded() {
            self.forget_spans();
        }
    }

    /// Forgets spans that were written and that no block, thread or other span refers to.
    #[cold]
    fn forget_spans(&mut self) {
        let mut of_blocks = FxHashSet::default();
        let mut last = None;
        let mut note = |span: Option<u32>| {
            if span != last {
                last = span;
                of_blocks.extend(span);
            }
        };
        for process in self.processes.running() {
            process.each_block(|block| note(block.span));
            process.each_piece(|piece| note(piece.span));
            let devices = process.devices.iter().flat_map(|devices| devices.iter());
            devices.for_each(|(_, found)| note(found.block.span));
        }
        self.garbage.iter().flat_map(Garbage::spans).for_each(|span| note(Some(span)));
        self.spans.keep_only(of_blocks);
    }

    /// A thread exports its span, adopts one, or activates another context.
    pub(super) fn span_moved(&mut self, writer: u32, event: Event) {
        let process = self.process_of(writer);
        match event.kind {
            Wire::SpanExport => self.spans.export(process, writer, event.address),
            Wire::SpanAdopt => self.spans.adopt(process, writer, event.address, event.bytes != 0),
            _ => self.spans.activate(process, writer, event.address),
        }
    }

    /// A span has begun: from here on, resident memory is its own.
    fn note_resident_before(&mut self, process: u32, span: u32) {
        let Some(image) = self.kernel_image(process).filter(|image| image.now.resident() > 0) else { return };
        let of = &self.processes[process];
        let resident = image.now.resident().saturating_sub(of.row.probe_bytes);
        self.spans.resident_before(span, resident, image.now.file, Footprint::of(of));
    }
}
