//! The GC-independent peak of spans: a curve each, kept until all its garbage has been found.

use rustc_hash::FxHashMap;

use super::{Span, Spans};
use crate::record::state::curve::{Curve, Steps};
use crate::record::state::garbage::Collection;

/// Spans whose garbage is still to be found.
#[derive(Default)]
pub(super) struct Waiting {
    /// By process: those that run, and those that ended after its last complete collection.
    spans: FxHashMap<u32, Vec<u32>>,
}

impl Spans {
    /// Garbage in spans is found from now on (`--gc`).
    pub fn watch_garbage(&mut self) {
        self.waiting = Some(Waiting::default());
    }

    /// A curve for a span that opens, if garbage is to be found.
    pub(super) fn curve_of(&mut self, process: u32) -> Option<Curve> {
        let next = self.spans.len() as u32;
        let waiting = self.waiting.as_mut()?;
        waiting.spans.entry(process).or_default().push(next);
        Some(Curve::default())
    }

    /// A collection in `process` has ended.
    pub fn settle(&mut self, process: u32, collection: &Collection) {
        for (span, garbage) in self.by_span(collection) {
            let garbage = Steps::new(garbage.into_iter());
            if let Some(curve) = &mut self.spans[span as usize].curve {
                curve.settle(&garbage, collection.since, !collection.guessed);
            }
        }
        let waiting = self.waiting.as_mut().and_then(|waiting| waiting.spans.get_mut(&process));
        if let (Some(stamp), Some(waiting)) = (collection.complete_at, waiting) {
            let spans = &mut self.spans;
            waiting.retain(|index| {
                let span = &mut spans[*index as usize];
                let waits = span.end.is_none_or(|end| end > stamp);
                if let Some(curve) = &mut span.curve {
                    curve.close(stamp);
                    if !waits {
                        curve.rest();
                    }
                }
                waits
            });
        }
    }

    /// What of the garbage each span that still waits had allocated, itself or in a span inside it.
    fn by_span(&self, collection: &Collection) -> FxHashMap<u32, Vec<(u64, u64)>> {
        let mut found: FxHashMap<u32, Vec<(u64, u64)>> = FxHashMap::default();
        for block in &collection.freed {
            let mut owner = block.span;
            while let Some(index) = owner {
                let span = &self.spans[index as usize];
                if span.end.is_none_or(|end| end > collection.since) {
                    found.entry(index).or_default().push((block.alloc, block.bytes));
                }
                owner = span.row.parent;
            }
        }
        found
    }
}

impl Span {
    /// Lower bound, upper bound, and garbage at the working peak; nothing without `--gc`.
    pub(super) fn bounds(&self) -> [Option<u64>; 3] {
        let curve = self.curve.as_ref();
        [
            curve.map(Curve::lower),
            curve.map(|_| self.row.working_peak_bytes),
            curve.map(Curve::garbage_at_peak),
        ]
    }
}
