//! Calls that were refused memory, and where memory was allocated then.

use memtrace_wire::event::Event;

use super::Fold;
use crate::record::state::process::Refusal;

impl Fold {
    /// A call of a thread was refused memory.
    pub(super) fn refused(&mut self, writer: u32, event: Event) {
        let index = self.process_of(writer);
        let site = self.sites.refused(writer, event.stack);
        let retained = self.retained(&self.processes[index]);
        let refusal = Refusal { stamp: event.stamp, bytes: event.bytes, limit: event.extra, site, retained };
        self.processes[index].refusals.push(refusal);
    }
}
