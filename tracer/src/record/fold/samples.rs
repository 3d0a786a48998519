//! Samples of perf events are folded in their order among the probes' events.

use memtrace_perf::What;

use super::Fold;
use crate::record::samples::{Counter, Sampled, Touched};
use crate::record::state::process::Process;

impl Fold {
    /// Folds what was sampled up to this stamp.
    pub(super) fn samples_until(&mut self, stamp: u64) {
        if !self.samples.has_pending() {
            return;
        }
        let until = self.clock.to_monotonic(stamp);
        while let Some(sampled) = self.samples.next_until(until) {
            self.sampled(sampled);
        }
        let run = self.samples.runs().take();
        self.fold_touched(run);
    }

    /// Folds all that was sampled of a process whose events are all folded.
    pub fn fold_last_samples(&mut self, process: u32) {
        for sampled in self.samples.take_of(process) {
            self.sampled(sampled);
        }
        let run = self.samples.runs().take();
        self.fold_touched(run);
    }

    fn sampled(&mut self, Sampled { ring, record }: Sampled) {
        let stamp = self.clock.stamp_of_monotonic(record.ns);
        let Some(process) = self.process_at(record.pid, stamp) else {
            return self.samples.note_stranger(record.pid);
        };
        let (address, memory) = match &record.what {
            What::Sample { address, memory } => (*address, *memory),
            What::Clock(registers) => return self.executed(process, &record, registers),
            _ => return,
        };
        if let (None, Some(period)) = (memory, self.samples.faults_period()) {
            let counter = Counter { ring, tid: record.tid };
            let before = self.samples.runs().add(process, counter, address, period, stamp);
            self.fold_touched(before);
        }
        if self.samples.joins() && (memory.is_some() || self.samples.joins_faults()) {
            self.accessed(process, &record, address, memory);
        }
    }

    /// What samples in a row have touched.
    fn fold_touched(&mut self, run: Option<Touched>) {
        if let Some(run) = run {
            self.faulted(run.process, run.address(), run.bytes(), run.begun, run.stamp);
        }
    }

    /// A process has said hello, or was forked by one that had; its pid here, if that is known.
    pub(super) fn sampled_process(&mut self, process: u32, pid: Option<u32>, stamp: u64) {
        if self.samples.joins() {
            self.processes[process].heap.blocks_mut().keep_order();
        }
        self.samples.met(process, pid, self.clock.to_monotonic(stamp));
    }

    /// The process that ran under a pid at that time.
    fn process_at(&self, pid: u32, stamp: u64) -> Option<u32> {
        self.samples.processes(pid).find(|index| {
            let ran =
                |process: &Process| process.start <= stamp && process.end.is_none_or(|end| stamp <= end);
            self.processes.get(*index).is_some_and(ran)
        })
    }
}
