//! Memory of devices that spans allocate: their working peaks there.

use memtrace_trace::rows::Kind;

use super::Spans;
use crate::record::state::devices::Change;

impl Spans {
    /// The process has memory of devices from now on: this many driver bytes.
    pub fn on_devices(&mut self, process: u32, driver: u64) {
        for span in self.open.get(&process).into_iter().flatten() {
            let row = &mut self.spans[*span as usize].row;
            row.device_peak_bytes.get_or_insert(0);
            row.device_driver_peak_bytes = row.device_driver_peak_bytes.max(Some(driver));
        }
    }

    /// A span begins in a process that has this many driver bytes.
    pub fn devices_before(&mut self, span: u32, driver: u64) {
        let row = &mut self.spans[span as usize].row;
        (row.device_peak_bytes, row.device_driver_peak_bytes) = (Some(0), Some(driver));
    }

    /// The innermost span of a block of a device that `thread` has allocated, and its ordinal
    /// there.
    pub fn device_block(&mut self, thread: u32, kind: Kind) -> (Option<u32>, u32) {
        let innermost = self.innermost(thread);
        let Some(index) = innermost else { return (None, 0) };
        let ordinal = &mut self.spans[index as usize].ordinals[kind as usize];
        *ordinal += 1;
        (innermost, *ordinal - 1)
    }

    /// Used bytes that a span, or a span in it, has allocated change.
    pub fn device_changed(&mut self, change: Change) {
        let mut next = change.span;
        while let Some(index) = next {
            let span = &mut self.spans[index as usize];
            if span.end.is_none() {
                span.device.change(change);
            }
            next = span.row.parent;
        }
    }
}
