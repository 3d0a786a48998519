//! How far operators have got.

use super::memory_limit::MemoryLimit;
use crate::live_protocol::{LISTED_MAX, Operator, Span};
use crate::record::fold::Fold;
use crate::record::spans::{OperatorSums, SpanView};

/// The operators, those with the largest working peaks first, and how many there are.
pub fn operators(fold: &Fold) -> (Vec<Operator>, u64) {
    let listed = |sums: &OperatorSums| Operator {
        name: sums.name.to_string(),
        started: sums.started,
        finished: sums.finished,
        running: 0,
        working_peak_bytes: sums.working_peak_bytes,
        seconds: fold.clock().ns_of(sums.ticks) as f64 / 1e9,
    };
    let mut operators: Vec<Operator> = fold.spans().operators().iter().map(listed).collect();
    for span in open(fold) {
        let operator = &mut operators[span.operator as usize];
        operator.running += 1;
        operator.working_peak_bytes = operator.working_peak_bytes.max(span.row.working_peak_bytes);
    }
    let seen = operators.len() as u64;
    operators.sort_by_key(|operator| std::cmp::Reverse((operator.working_peak_bytes, operator.started)));
    operators.truncate(LISTED_MAX);
    (operators, seen)
}

/// Spans that are open, those with the most working bytes first, and how many there are.
pub fn spans(fold: &Fold, limit: &MemoryLimit) -> (Vec<Span>, u64) {
    let runs = |span: &SpanView| fold.process(span.row.process).parted.is_none();
    let mut open: Vec<SpanView> = open(fold).filter(runs).collect();
    open.sort_by_key(|span| std::cmp::Reverse((span.working_bytes, span.row.span)));
    let now = fold.clock().now_ns();
    let listed = open.iter().take(LISTED_MAX).map(|span| Span {
        span: span.row.span,
        parent: span.row.parent,
        operator: span.row.operator.clone(),
        call: span.row.call,
        pid: fold.process(span.row.process).row.pid,
        tid: fold.thread(span.row.thread).tid,
        seconds: seconds(now - fold.clock().ns(span.start)),
        working_bytes: span.working_bytes,
        working_peak_bytes: span.row.working_peak_bytes,
        device_bytes: span.device.map(|used| used.now()),
        device_peak_bytes: span.device.map(|used| used.peak()),
        input_bytes: span.row.input_bytes,
        input: span.row.inputs.first().cloned(),
        params: (*span.row.params).clone(),
        predicted_peak_bytes: span.forecast.map(|forecast| forecast.peak_bytes),
        progress: span.forecast.and_then(|forecast| forecast.progress),
        exceeds: limit.excess(fold, span).is_some(),
    });
    (listed.collect(), open.len() as u64)
}

fn open(fold: &Fold) -> impl Iterator<Item = SpanView<'_>> {
    fold.spans().unfinished().filter_map(|span| fold.spans().view(span))
}

/// Of nanoseconds; none where clocks disagree about what came first.
pub fn seconds(ns: i64) -> f64 {
    ns.max(0) as f64 / 1e9
}
