//! What clients of the live view see of a span while it runs.

use memtrace_analysis::learn::Forecast;
use memtrace_trace::rows::SpanRow;
use serde_json::{Map, Value};

use super::Spans;
use crate::record::state::devices::Used;

/// A span as far as it has got.
pub struct SpanView<'a> {
    /// Its row; times and parameters are not filled in.
    pub row: &'a SpanRow,
    /// Its parameters.
    pub params: &'a Map<String, Value>,
    /// Stamp of its begin.
    pub start: u64,
    /// Stamp of its end, if it has ended.
    pub end: Option<u64>,
    /// Bytes allocated in it and not yet released.
    pub working_bytes: u64,
    /// Used bytes of devices that were allocated in it, if its process has had memory of one.
    pub device: Option<Used>,
    /// What the law of its operator predicts from that, if it is followed.
    pub forecast: Option<Forecast>,
}

impl Spans {
    /// The span with this index; `None` if there are fewer.
    pub fn view(&self, span: u32) -> Option<SpanView<'_>> {
        let span = self.spans.get(span as usize)?;
        let working_bytes = span.live.max(0) as u64;
        let forecast = span.tracker.as_ref().map(|tracker| tracker.forecast());
        let device = span.row.device_peak_bytes.map(|_| span.device);
        Some(SpanView {
            row: &span.row,
            params: &span.params,
            start: span.start,
            end: span.end,
            working_bytes,
            device,
            forecast,
        })
    }
}
