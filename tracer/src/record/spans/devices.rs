//! Memory of devices that spans allocate: their working peaks there.

use memtrace_trace::rows::Kind;

use super::{Span, Spans};
use crate::record::state::devices::Change;

impl Spans {
    /// The process has memory of devices from now on: this many driver bytes.
    pub fn on_devices(&mut self, process: u32, driver: u64) {
        self.each_open(process, |span| {
            let row = &mut span.row;
            row.device_peak_bytes.get_or_insert(0);
            row.device_driver_peak_bytes = row.device_driver_peak_bytes.max(Some(driver));
        });
    }

    /// A span begins in a process that has this many driver bytes.
    pub fn devices_before(&mut self, span: u32, driver: u64) {
        let Some(Span { row, .. }) = self.held.get_mut(span) else { return };
        (row.device_peak_bytes, row.device_driver_peak_bytes) = (Some(0), Some(driver));
    }

    /// The innermost span of a block of a device that `thread` has allocated, and its ordinal
    /// there.
    pub fn device_block(&mut self, thread: u32, kind: Kind) -> (Option<u32>, u32) {
        let innermost = self.innermost(thread);
        let span = innermost.and_then(|number| self.held.get_mut(number));
        (innermost, span.map_or(0, |span| span.next_ordinal(kind)))
    }

    /// Used bytes that a span, or a span in it, has allocated change.
    pub fn device_changed(&mut self, change: Change) {
        self.held.each_running(change.span, |span| {
            span.device.change(change);
        });
    }
}
