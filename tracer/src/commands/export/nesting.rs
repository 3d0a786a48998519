//! Which calls lie inside others: viewers stack those of one track.

use memtrace_analysis::report::export::Span;

/// The ends of calls that run on one track, outermost first.
#[derive(Default)]
pub struct UnderWay {
    ends: Vec<u64>,
}

impl UnderWay {
    /// The ends of calls that are over when a call begins, innermost first. Calls come in the order
    /// they began.
    pub fn over(&mut self, span: &Span) -> Vec<u64> {
        let running = self.ends.iter().rposition(|outer| *outer > span.start_ns).map_or(0, |last| last + 1);
        self.ends.drain(running..).rev().collect()
    }

    /// Begins a call, if it ends before those that run. Others overlap, as those of coroutines do, and
    /// viewers would drop them.
    pub fn begin(&mut self, span: &Span) -> bool {
        let nests = self.ends.last().is_none_or(|outer| span.end_ns() <= *outer);
        if nests {
            self.ends.push(span.end_ns());
        }
        nests
    }

    /// The ends of those that still run, innermost first.
    pub fn rest(&self) -> impl Iterator<Item = u64> {
        self.ends.iter().rev().copied()
    }
}
