//! What those who watch a recording see of a span while it runs.

use memtrace_analysis::online::Forecast;
use memtrace_trace::rows::SpanRow;

use super::Spans;
use crate::record::devices::Used;

/// A span as far as it has got.
pub struct Glance<'a> {
    /// Its row; times are not filled in.
    pub row: &'a SpanRow,
    /// Stamp of its begin.
    pub start: u64,
    /// Stamp of its end, if it has ended.
    pub end: Option<u64>,
    /// Bytes allocated in it and not yet released.
    pub working_bytes: u64,
    /// Used bytes of devices that were allocated in it, if its process has had memory of one.
    pub device: Option<Used>,
    /// What the law of its operator makes of that, if it is followed.
    pub forecast: Option<Forecast>,
}

impl Spans {
    /// The span with this index; `None` if there are fewer.
    pub fn glance(&self, span: u32) -> Option<Glance<'_>> {
        let span = self.spans.get(span as usize)?;
        let working_bytes = span.live.max(0) as u64;
        let forecast = span.tracker.as_ref().map(|tracker| tracker.forecast());
        let device = span.row.device_peak_bytes.map(|_| span.device);
        Some(Glance { row: &span.row, start: span.start, end: span.end, working_bytes, device, forecast })
    }
}
