//! Calls that were refused memory, for `meta.json`.

use memtrace_trace::Refused;

use super::recording::Session;
use crate::record::state::process::{Process, Refusal};

impl Session {
    /// Those of all processes, in the order of time.
    pub(super) fn note_refusals(&mut self) {
        let all = self.fold.processes();
        let all = all.flat_map(|process| process.refusals.iter().map(move |refusal| (process, refusal)));
        let mut refused: Vec<Refused> =
            all.map(|(process, refusal)| self.refused(process, refusal)).collect();
        refused.sort_by_key(|refused| refused.time_ns);
        self.meta.refused = refused;
    }

    fn refused(&self, process: &Process, refusal: &Refusal) -> Refused {
        let (operators, sites) = self.shares(&refusal.retained);
        Refused {
            process: process.row.process,
            pid: process.row.pid,
            command: process.row.command.clone(),
            time_ns: self.fold.clock().ns(refusal.stamp),
            requested_bytes: refusal.bytes,
            site: refusal.site.map(|site| self.fold.sites().id(site)),
            limit_bytes: (refusal.limit != u64::MAX).then_some(refusal.limit),
            live_bytes: refusal.retained.live,
            operators,
            sites,
        }
    }
}
