//! Spans that are followed against the laws of a model (`--model`): how far each has got, and what
//! its peak will be.

use memtrace_analysis::learn::{Observation, Tracker};
use memtrace_analysis::{Law, Model};

use super::Spans;

impl Spans {
    /// Follows spans that begin from now on, if their operators have laws.
    pub fn follow(&mut self, model: Model) {
        self.model = Some(model);
    }

    /// A span has begun: follows it if there is a law for it.
    pub(super) fn follow_new(&mut self, span: u32) {
        let Some(model) = &self.model else { return };
        let Some(span) = self.held.get_mut(span) else { return };
        let begun = Observation {
            inputs: span.row.inputs.to_vec(),
            params: span.row.params.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            ..Observation::default()
        };
        let law = model.nearest(&span.row.operator, &begun);
        let begin = if span.row.call == 0 { Tracker::of_first_call } else { Tracker::new };
        let tracker = |(law, shape): (&Law, Vec<u64>)| begin(law, &shape).ok().map(Box::new);
        span.tracker = law.and_then(tracker);
    }

    /// Spans without an end.
    pub fn unfinished(&self) -> impl Iterator<Item = u32> {
        self.of_process.values().flat_map(|of| of.open().iter().copied())
    }
}
