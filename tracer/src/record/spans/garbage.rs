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

    /// A span opens: gives it a curve, if garbage is to be found.
    pub(super) fn await_garbage(&mut self, process: u32, number: u32) {
        let (Some(waiting), Some(span)) = (&mut self.waiting, self.held.get_mut(number)) else { return };
        waiting.spans.entry(process).or_default().push(number);
        span.curve = Some(Curve::default());
        span.awaits_garbage = true;
    }

    /// A collection in `process` has ended.
    pub fn settle(&mut self, process: u32, collection: &Collection) {
        for (number, garbage) in self.by_span(collection) {
            let garbage = Steps::new(garbage.into_iter());
            if let Some(curve) = self.held.get_mut(number).and_then(|span| span.curve.as_mut()) {
                curve.settle(&garbage, collection.since, !collection.guessed);
            }
        }
        let waiting = self.waiting.as_mut().and_then(|waiting| waiting.spans.get_mut(&process));
        let (Some(stamp), Some(waiting)) = (collection.complete_at, waiting) else { return };
        let held = &mut self.held;
        let mut close =
            |number: &u32| held.get_mut(*number).is_some_and(|span| span.garbage_found_until(stamp));
        let done: Vec<u32> = waiting.extract_if(.., |number| close(number)).collect();
        done.into_iter().for_each(|number| self.settle_if_done(number));
    }

    /// What of the garbage each span that still waits had allocated, itself or in a span inside it.
    fn by_span(&self, collection: &Collection) -> FxHashMap<u32, Vec<(u64, u64)>> {
        let mut found: FxHashMap<u32, Vec<(u64, u64)>> = FxHashMap::default();
        for block in &collection.freed {
            let mut owner = block.span;
            while let Some(index) = owner {
                let span = self.held.get(index);
                if span.is_some_and(|span| span.end.is_none_or(|end| end > collection.since)) {
                    found.entry(index).or_default().push((block.alloc, block.bytes));
                }
                owner = self.held.parent(index);
            }
        }
        found
    }
}

impl Span {
    /// All garbage that was there at `stamp` has been found. True if none of its own may be left.
    fn garbage_found_until(&mut self, stamp: u64) -> bool {
        let Some(curve) = &mut self.curve else { return true };
        curve.close(stamp);
        self.awaits_garbage = self.end.is_none_or(|end| end > stamp);
        if !self.awaits_garbage {
            curve.rest();
        }
        !self.awaits_garbage
    }

    /// Lower bound, upper bound, and garbage at the working peak; nothing without `--gc`.
    pub(super) fn bounds(&self, working_peak_bytes: u64) -> [Option<u64>; 3] {
        let curve = self.curve.as_ref();
        [curve.map(Curve::lower), curve.map(|_| working_peak_bytes), curve.map(Curve::garbage_at_peak)]
    }
}
