//! Resident memory of spans' processes, while they run.

use memtrace_trace::rows::SpanResident;

use super::{Span, Spans};
use crate::record::state::footprint::Footprint;

/// What the kernel side reports of a process's resident memory, in bytes, the probe's rings left
/// out.
#[derive(Debug, Clone, Copy)]
pub struct ResidentChange {
    /// Resident now.
    pub now: u64,
    /// Of it, pages of files.
    pub file_now: u64,
    /// The footprint now.
    pub footprint_now: Footprint,
    /// Most that was resident since the last report.
    pub high: u64,
    /// When that ended.
    pub high_stamp: u64,
    /// Of it, pages of files.
    pub file: u64,
    /// The footprint then.
    pub footprint: Footprint,
}

impl Spans {
    /// The process was sampled with this many resident bytes.
    pub fn resident(&mut self, process: u32, bytes: u64) {
        self.each_open(process, |span| {
            let row = &mut span.row;
            // What the kernel side reports is exact.
            if row.at_resident_peak.is_none() {
                row.resident_peak_bytes = row.resident_peak_bytes.max(Some(bytes));
            }
        });
    }

    /// This much was resident when a span began.
    pub fn resident_before(&mut self, span: u32, resident: u64, file: u64, footprint: Footprint) {
        let Some(Span { row, .. }) = self.held.get_mut(span) else { return };
        let Footprint { live, untouched, mapped } = footprint;
        row.resident_peak_bytes = Some(resident);
        row.at_resident_peak = Some(SpanResident { start: resident, file, live, untouched, mapped });
    }

    /// Resident memory of a process has moved.
    pub fn resident_changed(&mut self, process: u32, change: &ResidentChange) {
        self.each_open(process, |span| {
            // What was highest before the span began is none of its own.
            let (bytes, file, footprint) = match span.start <= change.high_stamp {
                true => (change.high, change.file, change.footprint),
                false => (change.now, change.file_now, change.footprint_now),
            };
            let Footprint { live, untouched, mapped } = footprint;
            let start = span.row.at_resident_peak.map_or(bytes, |before| before.start);
            // When the same peak is reported again, more is known of the footprint then.
            if span.row.at_resident_peak.is_none() || span.row.resident_peak_bytes <= Some(bytes) {
                span.row.resident_peak_bytes = Some(bytes);
                span.row.at_resident_peak = Some(SpanResident { start, file, live, untouched, mapped });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Nothing;
    use super::*;

    /// Fallen from `high`, which ended at that time, to `now`.
    fn change(now: u64, high: u64, high_stamp: u64) -> ResidentChange {
        let of = |live| Footprint { live, ..Footprint::default() };
        let (footprint_now, footprint) = (of(now), of(high));
        ResidentChange { now, file_now: 1, footprint_now, high, high_stamp, file: 2, footprint }
    }

    #[test]
    fn what_was_highest_before_a_span_is_none_of_its_own() {
        let mut spans = Spans::default();
        let span = spans.begin(0, 0, 1, 100, b"{}");
        spans.resident_before(span, 40, 1, Footprint::default());
        spans.resident_changed(0, &change(50, 90, 99));
        let row = |spans: &Spans| spans.rows(|stamp| stamp as i64, |_| 0).next().unwrap();
        assert_eq!(row(&spans).resident_peak_bytes, Some(50));
        spans.resident_changed(0, &change(60, 80, 120));
        spans.resident_changed(1, &change(500, 500, 130));
        spans.resident(0, 1000);
        let peak = SpanResident { start: 40, file: 2, live: 80, untouched: 0, mapped: 0 };
        assert_eq!((row(&spans).resident_peak_bytes, row(&spans).at_resident_peak), (Some(80), Some(peak)));
        spans.end((0, 0), 1, 140, b"", &Nothing);
        spans.resident_changed(0, &change(300, 300, 150));
        assert_eq!(row(&spans).resident_peak_bytes, Some(80), "it has ended");
    }
}
