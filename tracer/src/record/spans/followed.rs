//! Spans that are followed against the laws of a model (`--model`): how far each has got, and what its peak will be.

use memtrace_analysis::Model;
use memtrace_analysis::online::{Observation, Tracker};

use super::{Params, Spans};

impl Spans {
    /// Follows spans that begin from now on, if their operators have laws.
    pub fn follow(&mut self, model: Model) {
        self.model = Some(model);
    }

    /// A span has begun: follows it if there is a law that says something of it.
    pub(super) fn follow_new(&mut self, span: u32) {
        let Some(model) = &self.model else { return };
        let span = &mut self.spans[span as usize];
        let begun = Observation {
            inputs: span.row.inputs.clone(),
            params: Params::unwrap_or_clone(span.params.clone()).into_iter().collect(),
            ..Observation::default()
        };
        let law = model.nearest(&span.row.operator, &begun);
        span.tracker = law.and_then(|(law, shape)| Tracker::new(law, &shape).ok()).map(Box::new);
    }

    /// Spans without an end.
    pub fn unfinished(&self) -> impl Iterator<Item = u32> {
        self.open.values().flatten().copied().filter(|span| self.is_open(*span))
    }
}
