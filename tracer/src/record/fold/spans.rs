//! Spans begin and end: what their arrays lie in is noted.

use memtrace_wire::event::Event;

use super::Fold;
use crate::record::blocks::Part;
use crate::record::spans::Memory;

impl Fold {
    pub(super) fn span_begin(&mut self, writer: u32, event: Event, text: &[u8]) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        // Arrays may begin anywhere in their blocks.
        process.blocks.keep_order();
        let span = self.spans.begin(index, writer, event.address, event.stamp, text);
        for start in self.spans.inputs(span).iter().filter_map(|array| array.range()).map(|range| range.start)
        {
            if let Some(block) = process.around(start) {
                process.set_part(block.key, Part::Input);
            }
        }
        let devices = self.processes[index as usize].devices.as_ref();
        devices.into_iter().for_each(|devices| self.spans.devices_before(span, devices.driver()));
        self.note_resident_before(index, span);
    }

    pub(super) fn span_end(&mut self, writer: u32, event: Event, text: &[u8]) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let outputs = self.spans.end((index, writer), event.address, event.stamp, text, process);
        outputs.into_iter().for_each(|block| process.set_part(block, Part::Output));
    }
}
