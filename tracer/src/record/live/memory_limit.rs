//! Predictions of running operators against what a process may have (`--model`, `--memory-limit`).

use memtrace_analysis::Model;
use rustc_hash::FxHashSet;

use crate::record::fold::Fold;
use crate::record::spans::SpanView;
use crate::units::Bytes;

/// What is predicted while operators run.
#[derive(Clone)]
pub struct PredictionOptions {
    /// Laws of operators.
    pub model: Model,
    /// What one process may have, live bytes.
    pub limit_bytes: Option<u64>,
    /// No warnings are printed.
    pub quiet: bool,
}

/// Live bytes of a process at the peak of one of its spans, which are more than it may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excess {
    /// As predicted.
    predicted: u64,
    /// The least that may be.
    least: u64,
}

/// What one process may have, and the spans that a warning was given of.
#[derive(Default)]
pub struct MemoryLimit {
    bytes: Option<u64>,
    quiet: bool,
    warned: FxHashSet<u32>,
}

impl MemoryLimit {
    /// As the options have it.
    pub fn new(options: &PredictionOptions) -> MemoryLimit {
        MemoryLimit { bytes: options.limit_bytes, quiet: options.quiet, warned: FxHashSet::default() }
    }

    /// Bytes that the span's process will have at its peak, if even the least of it is more than it
    /// may.
    pub fn excess(&self, fold: &Fold, span: &SpanView) -> Option<Excess> {
        let forecast = span.forecast?;
        let live = fold.process(span.row.process).live();
        let least = self.excess_of(live, span.working_bytes, forecast.least_bytes)?;
        Some(Excess { predicted: with_peak(live, span.working_bytes, forecast.peak_bytes), least })
    }

    /// `live` bytes of the process, of them `working` of a span that will need `least` at its peak.
    fn excess_of(&self, live: u64, working: u64, least: u64) -> Option<u64> {
        let peak = with_peak(live, working, least);
        self.bytes.filter(|limit| peak > *limit).map(|_| peak)
    }

    /// A sentence for each running span that will make its process exceed the limit, once.
    pub fn warnings(&mut self, fold: &Fold) -> Vec<String> {
        let Some(bytes) = self.bytes.filter(|_| !self.quiet) else { return Vec::new() };
        let mut sentences = Vec::new();
        for number in fold.spans().unfinished() {
            let Some(span) = fold.spans().view(number) else { continue };
            let Some(excess) = self.excess(fold, &span) else { continue };
            if self.warned.insert(number) {
                sentences.push(sentence(&span, fold.process(span.row.process).row.pid, excess, bytes));
            }
        }
        sentences
    }
}

/// Live bytes of a process when a span in it is at its peak.
fn with_peak(live: u64, working: u64, peak: u64) -> u64 {
    live.saturating_sub(working).saturating_add(peak)
}

/// `2.15 GB predicted, at least 2.04 GB`
fn excess_words(excess: Excess) -> String {
    let (predicted, least) = (Bytes(excess.predicted).to_string(), Bytes(excess.least).to_string());
    if least == predicted {
        format!("{predicted} predicted")
    } else {
        format!("{predicted} predicted, at least {least}")
    }
}

/// `gst3d 200×200×200 of process 42 will exceed its budget of 1.50 GB: 2.15 GB predicted, at least
/// 2.04 GB; now at 61 % of its steps`
fn sentence(span: &SpanView, pid: u32, excess: Excess, limit: u64) -> String {
    let shape = span.row.inputs.first().map(|input| {
        let lengths: Vec<String> = input.shape.iter().map(u64::to_string).collect();
        format!(" {}", lengths.join("×"))
    });
    let progress = span.forecast.and_then(|forecast| forecast.progress);
    let progress =
        progress.map_or(String::new(), |part| format!("; now at {:.0} % of its steps", part * 100.0));
    let (operator, shape) = (&span.row.operator, shape.unwrap_or_default());
    let (excess, limit) = (excess_words(excess), Bytes(limit));
    format!("{operator}{shape} of process {pid} will exceed its budget of {limit}: {excess}{progress}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_span_has_already_is_not_counted_twice() {
        let limit = MemoryLimit { bytes: Some(100), ..MemoryLimit::default() };
        assert_eq!(limit.excess_of(60, 40, 80), None);
        assert_eq!(limit.excess_of(60, 40, 81), Some(101));
        assert_eq!(limit.excess_of(10, 40, 101), Some(101), "more was released than seen");
        assert_eq!(MemoryLimit::default().excess_of(60, 0, u64::MAX), None);
    }

    #[test]
    fn the_prediction_is_named_and_the_bound_where_it_differs() {
        let words = |predicted, least| excess_words(Excess { predicted, least });
        assert_eq!(words(659_000_000, 592_000_000), "659 MB predicted, at least 592 MB");
        assert_eq!(words(659_000_000, 659_000_000), "659 MB predicted");
        assert_eq!(words(659_000_001, 659_000_000), "659 MB predicted");
    }
}
