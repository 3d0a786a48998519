//! The spans of a trace that runs are made of: each is looked at once, in the order of the rows, and
//! those of the sample stay.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use memtrace_trace::rows::SpanRow;
use memtrace_trace::{Rows, Trace};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value};

use super::devices::Devices;
use super::provenance::Operators;
use super::sample::Sample;
use super::{THREADS, threads};

/// So many calls of an operator in a process say what its first one left behind …
const EARLY: u8 = 8;
/// … in so many processes.
const PROCESSES: usize = 256;

/// What is known of all spans of a trace, and the sample of those that finished.
pub(super) struct Spans {
    /// The sample, and the early calls of each process, in the order in which they began.
    pub(super) read: Vec<SpanRow>,
    /// The sample alone.
    pub(super) sample: FxHashSet<u32>,
    /// How many are not in it.
    pub(super) left_out: usize,
    /// Operators and libraries of those that finished.
    pub(super) operators: Operators,
    /// By process, when its first one began.
    pub(super) first_ns: HashMap<u32, i64>,
    /// What else was left out, and why.
    pub(super) notes: Vec<String>,
    parents: Vec<(u32, u32)>,
}

/// The early calls of operators in processes.
#[derive(Default)]
struct Early {
    /// By operator and process.
    counts: HashMap<String, FxHashMap<u32, u8>>,
    taken: FxHashSet<u32>,
}

impl Early {
    /// True if the span is one of them.
    fn takes(&mut self, span: &SpanRow) -> bool {
        if !self.counts.contains_key(&span.operator) {
            self.counts.insert(span.operator.clone(), FxHashMap::default());
        }
        let Some(processes) = self.counts.get_mut(&span.operator) else { return false };
        if processes.len() == PROCESSES && !processes.contains_key(&span.process) {
            return false;
        }
        let count = processes.entry(span.process).or_default();
        *count = count.saturating_add(1);
        *count <= EARLY && self.taken.insert(span.span)
    }
}

/// How many spans are no runs.
#[derive(Default)]
struct Counts {
    finished: usize,
    unfinished: usize,
    deleted: usize,
}

impl Spans {
    /// Reads them; those of processes that are `lossy` are left out.
    pub(super) fn read(
        trace: &Trace,
        lossy: &BTreeMap<u32, u64>,
        devices: &Devices,
    ) -> memtrace_trace::Result<Spans> {
        let (mut sample, mut counts) = (Sample::new(), Counts::default());
        let (mut operators, mut first_ns) = (Operators::default(), HashMap::new());
        let (mut parents, mut early) = (Vec::new(), Early::default());
        let mut spans = trace.spans_where(|span| {
            parents.extend(span.parent.map(|parent| (span.span, parent)));
            if lossy.contains_key(&span.process) || !counts.takes(span, &trace.meta().rows) {
                return false;
            }
            operators.add(span);
            let first: &mut i64 = first_ns.entry(span.process).or_insert(span.start_ns);
            *first = span.start_ns.min(*first);
            let is_early = early.takes(span);
            sample.offer(span, devices.before(span), span.span) || is_early
        })?;
        let sample = sample.taken();
        spans.retain(|span| sample.contains(&span.span) || early.taken.contains(&span.span));
        spans.sort_by_key(|span| (span.start_ns, span.span));
        if let Some(threads) = threads(trace.meta()) {
            add_threads(&mut spans, threads);
        }
        parents.sort_unstable();
        let left_out = counts.finished.saturating_sub(sample.len());
        let notes = counts.notes(lossy.is_empty());
        Ok(Spans { read: spans, sample, left_out, operators, first_ns, notes, parents })
    }

    /// The span that a span is inside of.
    pub(super) fn parent(&self, span: u32) -> Option<u32> {
        let found = self.parents.partition_point(|(child, _)| *child < span);
        self.parents.get(found).filter(|(child, _)| *child == span).map(|(_, parent)| *parent)
    }
}

impl Counts {
    /// True if a span is a run.
    fn takes(&mut self, span: &SpanRow, kept: &Rows) -> bool {
        let is_deleted = kept.rotated > 0 && span.start_ns <= kept.complete_from_ns;
        let count = match span.end_ns {
            None => &mut self.unfinished,
            Some(_) if is_deleted => &mut self.deleted,
            Some(_) => &mut self.finished,
        };
        *count += 1;
        span.end_ns.is_some() && !is_deleted
    }

    fn notes(&self, is_whole: bool) -> Vec<String> {
        let unfinished = (is_whole && self.unfinished > 0)
            .then(|| format!("{} spans that never ended were left out", self.unfinished));
        let deleted = (self.deleted > 0)
            .then(|| format!("{} spans whose blocks --max-trace-size deleted were left out", self.deleted));
        unfinished.into_iter().chain(deleted).collect()
    }
}

/// Each set of parameters once: spans share them.
fn add_threads(spans: &mut [SpanRow], threads: u64) {
    let mut known: HashMap<*const _, (Arc<_>, Arc<Map<String, Value>>)> = HashMap::new();
    for span in spans {
        let (_, longer) = known.entry(Arc::as_ptr(&span.params)).or_insert_with(|| {
            let mut longer = (*span.params).clone();
            longer.insert(THREADS.into(), threads.into());
            (Arc::clone(&span.params), Arc::new(longer))
        });
        span.params = Arc::clone(longer);
    }
}
