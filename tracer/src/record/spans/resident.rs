//! Resident memory of spans' processes, while they run.

use memtrace_trace::rows::SpanResident;

use super::Spans;
use crate::record::kernel::Held;

/// What the kernel side tells of a process's resident memory, in bytes, the probe's rings left out.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    /// Resident now.
    pub now: u64,
    /// Of it, pages of files.
    pub file_now: u64,
    /// What is held now.
    pub held_now: Held,
    /// Most that was resident since this was last told.
    pub high: u64,
    /// When that ended.
    pub high_stamp: u64,
    /// Of it, pages of files.
    pub file: u64,
    /// What was held then.
    pub held: Held,
}

impl Spans {
    /// The process was seen with this many resident bytes, by somebody who looked.
    pub fn resident(&mut self, process: u32, bytes: u64) {
        for span in self.open.get(&process).into_iter().flatten() {
            let row = &mut self.spans[*span as usize].row;
            // Whoever is told knows better.
            if row.at_resident_peak.is_none() {
                row.resident_peak_bytes = row.resident_peak_bytes.max(Some(bytes));
            }
        }
    }

    /// So much was resident when a span began.
    pub fn resident_before(&mut self, span: u32, resident: u64, file: u64, held: Held) {
        let row = &mut self.spans[span as usize].row;
        let Held { live, untouched, mapped } = held;
        row.resident_peak_bytes = Some(resident);
        row.at_resident_peak = Some(SpanResident { start: resident, file, live, untouched, mapped });
    }

    /// Resident memory of a process has moved.
    pub fn resident_told(&mut self, process: u32, told: &Told) {
        for span in self.open.get(&process).into_iter().flatten() {
            let span = &mut self.spans[*span as usize];
            // What was highest before the span began is none of its own.
            let (bytes, file, held) = match span.start <= told.high_stamp {
                true => (told.high, told.file, told.held),
                false => (told.now, told.file_now, told.held_now),
            };
            let Held { live, untouched, mapped } = held;
            let start = span.row.at_resident_peak.map_or(bytes, |before| before.start);
            // Told again of the same peak, more is known of what was held then.
            if span.row.at_resident_peak.is_none() || span.row.resident_peak_bytes <= Some(bytes) {
                span.row.resident_peak_bytes = Some(bytes);
                span.row.at_resident_peak = Some(SpanResident { start, file, live, untouched, mapped });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Nothing;
    use super::*;

    /// Fallen from `high`, which ended at that time, to `now`.
    fn told(now: u64, high: u64, high_stamp: u64) -> Told {
        let held = |live| Held { live, ..Held::default() };
        Told { now, file_now: 1, held_now: held(now), high, high_stamp, file: 2, held: held(high) }
    }

    #[test]
    fn what_was_highest_before_a_span_is_none_of_its_own() {
        let mut spans = Spans::default();
        let span = spans.begin(0, 0, 1, 100, b"{}");
        spans.resident_before(span, 40, 1, Held::default());
        spans.resident_told(0, &told(50, 90, 99));
        let row = |spans: &Spans| spans.rows(|stamp| stamp as i64, |_| 0).next().unwrap();
        assert_eq!(row(&spans).resident_peak_bytes, Some(50));
        spans.resident_told(0, &told(60, 80, 120));
        spans.resident_told(1, &told(500, 500, 130));
        spans.resident(0, 1000);
        let peak = SpanResident { start: 40, file: 2, live: 80, untouched: 0, mapped: 0 };
        assert_eq!((row(&spans).resident_peak_bytes, row(&spans).at_resident_peak), (Some(80), Some(peak)));
        spans.end((0, 0), 1, 140, b"", &Nothing);
        spans.resident_told(0, &told(300, 300, 150));
        assert_eq!(row(&spans).resident_peak_bytes, Some(80), "it has ended");
    }
}
