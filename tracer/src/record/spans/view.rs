//! What clients of the live view see of a span while it runs.

use memtrace_analysis::learn::Forecast;
use memtrace_trace::rows::SpanRow;

use super::Spans;
use crate::record::state::devices::Used;

/// A span as far as it has got.
pub struct SpanView<'a> {
    /// Its row; times are not filled in.
    pub row: &'a SpanRow,
    /// The number of its operator.
    pub operator: u32,
    /// Stamp of its begin.
    pub start: u64,
    /// Bytes allocated in it and not yet released.
    pub working_bytes: u64,
    /// Used bytes of devices that were allocated in it, if its process has had memory of one.
    pub device: Option<Used>,
    /// What the law of its operator predicts from that, if it is followed.
    pub forecast: Option<Forecast>,
}

impl Spans {
    /// A span that runs.
    pub fn view(&self, span: u32) -> Option<SpanView<'_>> {
        let span = self.held.get(span)?;
        let working_bytes = span.live.max(0) as u64;
        let forecast = span.tracker.as_ref().map(|tracker| tracker.forecast());
        let device = span.row.device_peak_bytes.map(|_| span.device);
        Some(SpanView {
            row: &span.row,
            operator: span.operator,
            start: span.start,
            working_bytes,
            device,
            forecast,
        })
    }
}
