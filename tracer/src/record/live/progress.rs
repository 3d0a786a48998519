//! How far operators have got. Counted only while a client watches: spans are read from the first
//! on, a part at a time, and those that are open again until they have ended.

use rustc_hash::FxHashMap;

use super::memory_limit::MemoryLimit;
use crate::live_protocol::{LISTED_MAX, Operator, Span};
use crate::record::fold::Fold;
use crate::record::spans::SpanView;

/// Spans read in one go: some milliseconds' work.
const BATCH: usize = 50_000;

/// The calls of every operator.
#[derive(Default)]
pub struct Progress {
    /// Spans before this one were read.
    next: u32,
    /// Of them, those without an end.
    open: Vec<u32>,
    operators: Vec<Operator>,
    by_name: FxHashMap<String, usize>,
}

impl Progress {
    /// Reads what is new. False if there is more to be read.
    pub fn follow(&mut self, fold: &Fold) -> bool {
        for _ in 0..BATCH {
            let Some(span) = fold.spans().view(self.next) else { break };
            self.operator(&span.row.operator).started += 1;
            self.open.push(self.next);
            self.next += 1;
        }
        let mut open = std::mem::take(&mut self.open);
        self.operators.iter_mut().for_each(|operator| operator.running = 0);
        open.retain(|span| fold.spans().view(*span).is_some_and(|span| self.count(fold, &span)));
        self.open = open;
        fold.spans().view(self.next).is_none()
    }

    /// Counts a span that was open when it was last read. True if it still is.
    fn count(&mut self, fold: &Fold, span: &SpanView) -> bool {
        let cut = fold.process(span.row.process).end.is_some();
        let operator = self.operator(&span.row.operator);
        operator.working_peak_bytes = operator.working_peak_bytes.max(span.row.working_peak_bytes);
        match span.end {
            Some(end) => {
                operator.finished += 1;
                operator.seconds += seconds(fold.clock().ns(end) - fold.clock().ns(span.start));
            }
            None => operator.running += u64::from(!cut),
        }
        span.end.is_none() && !cut
    }

    fn operator(&mut self, name: &str) -> &mut Operator {
        let number = self.by_name.get(name).copied().unwrap_or_else(|| {
            self.by_name.insert(name.into(), self.operators.len());
            self.operators.push(Operator { name: name.into(), ..Operator::default() });
            self.operators.len() - 1
        });
        &mut self.operators[number]
    }

    /// The operators, those with the largest working peaks first, and how many there are.
    pub fn operators(&self) -> (Vec<Operator>, u64) {
        let mut listed = self.operators.clone();
        listed.sort_by_key(|operator| std::cmp::Reverse((operator.working_peak_bytes, operator.started)));
        listed.truncate(LISTED_MAX);
        (listed, self.operators.len() as u64)
    }

    /// Spans that are open, those with the most working bytes first, and how many there are.
    pub fn spans(&self, fold: &Fold, limit: &MemoryLimit) -> (Vec<Span>, u64) {
        let open = self.open.iter().filter_map(|span| fold.spans().view(*span));
        let runs = |span: &SpanView| fold.process(span.row.process).parted.is_none();
        let mut open: Vec<SpanView> = open.filter(runs).collect();
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
            params: span.params.clone(),
            predicted_peak_bytes: span.forecast.map(|forecast| forecast.peak_bytes),
            progress: span.forecast.and_then(|forecast| forecast.progress),
            exceeds: limit.excess(fold, span).is_some(),
        });
        (listed.collect(), open.len() as u64)
    }
}

/// Of nanoseconds; none where clocks disagree about what came first.
pub fn seconds(ns: i64) -> f64 {
    ns.max(0) as f64 / 1e9
}
