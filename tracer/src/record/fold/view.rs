//! What the session and the live view may read of a fold.

use memtrace_trace::SpanCursor;
use memtrace_trace::rows::{SpanRow, ThreadRow};

use super::{Fold, Retired, Totals};
use crate::record::kernel::{Image, Kernel};
use crate::record::procfs::cgroup::Cgroups;
use crate::record::samples::Samples;
use crate::record::sites::Sites;
use crate::record::spans::Spans;
use crate::record::state::garbage::Garbage;
use crate::record::state::process::Process;
use crate::record::transport::clock::Clock;

impl Fold {
    /// Converts stamps.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Process images that have not left, by index.
    pub fn processes(&self) -> impl DoubleEndedIterator<Item = &Process> {
        self.processes.iter()
    }

    /// How many have been met.
    pub fn processes_met(&self) -> u32 {
        self.processes.met()
    }

    /// What is kept of those that have left.
    pub fn retired(&self) -> &Retired {
        &self.retired
    }

    /// Those that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Process> {
        self.processes.running()
    }

    /// One of them.
    pub fn process(&self, index: u32) -> &Process {
        &self.processes[index]
    }

    /// The same, to note what was sampled of it.
    pub fn process_mut(&mut self, index: u32) -> &mut Process {
        &mut self.processes[index]
    }

    /// The last image of the recorded command.
    pub fn root_process(&self) -> Option<&Process> {
        self.processes.iter().rev().find(|process| process.row.pid == self.root)
    }

    /// The recorded command's own pid.
    pub fn root(&self) -> u32 {
        self.root
    }

    /// True if the recording is of processes that ran before.
    pub fn is_attached(&self) -> bool {
        self.attached
    }

    /// A thread, by index.
    pub fn thread(&self, index: u32) -> &ThreadRow {
        &self.threads[index]
    }

    /// The process of a thread, by index.
    pub fn process_of(&self, thread: u32) -> u32 {
        self.threads[thread].process
    }

    /// All spans.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The next span that has ended and will change no more, for one who follows them.
    pub fn next_span(&self, cursor: &mut SpanCursor) -> Option<SpanRow> {
        self.rows.next_span(cursor)
    }

    /// Those that have ended and may change, and whose numbers are `wanted`.
    pub fn ended_spans(&self, wanted: impl FnMut(u32) -> bool) -> impl Iterator<Item = SpanRow> {
        self.spans.ended_rows(|stamp| self.clock.ns(stamp), |site| self.sites.id(site), wanted)
    }

    /// The same, to note what was sampled of their processes.
    pub fn spans_mut(&mut self) -> &mut Spans {
        &mut self.spans
    }

    /// Call stacks.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// The same, to name generated code.
    pub fn sites_mut(&mut self) -> &mut Sites {
        &mut self.sites
    }

    /// Bytes of all processes together.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// What is known of garbage, with `--gc`.
    pub fn garbage(&self) -> Option<&Garbage> {
        self.garbage.as_ref()
    }

    /// The kernel side, if there is one.
    pub fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    /// True if it reports page faults.
    pub fn sees_faults(&self) -> bool {
        self.kernel.as_ref().is_some_and(Kernel::sees_faults)
    }

    /// Its programs, until they are detached.
    pub fn kernel_programs(&mut self) -> Option<&mut memtrace_ebpf::Kernel> {
        self.kernel.as_mut().and_then(Kernel::programs)
    }

    /// What the kernel saw of a process.
    pub fn kernel_image(&self, process: u32) -> Option<&Image> {
        self.kernel.as_ref()?.images().of(process)
    }

    /// Events for which the kernel side had no room.
    pub fn lost_by_kernel(&self) -> u64 {
        self.kernel.as_ref().map_or(0, Kernel::lost)
    }

    /// What perf events sample.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Memory control groups of the processes.
    pub fn cgroups(&self) -> &Cgroups {
        &self.cgroups
    }

    /// The same, to watch another one.
    pub fn cgroups_mut(&mut self) -> &mut Cgroups {
        &mut self.cgroups
    }

    /// A sentence on programs that were started and are not recorded.
    pub fn unrecorded_note(&self) -> Option<String> {
        self.unrecorded.note(self.kernel.is_some())
    }

    /// Nanoseconds threads waited for the tracer.
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns
    }

    /// Blocks without rows of their own.
    pub fn summed_blocks(&self) -> u64 {
        self.rows.summed_blocks()
    }

    /// Resident bytes of a process as they were last reported, or sampled.
    pub fn resident_now(&self, process: &Process) -> u64 {
        let reported = self.kernel_image(process.row.process).map_or(0, |image| image.now.resident());
        if reported > 0 { reported.saturating_sub(process.row.probe_bytes) } else { process.residency.now() }
    }

    /// The peak of its resident bytes so far.
    pub fn resident_peak(&self, process: &Process) -> u64 {
        let reported = self.kernel_image(process.row.process).map_or(0, |image| image.peak);
        let peak = if reported > 0 { reported } else { process.residency.peak() };
        peak.saturating_sub(process.row.probe_bytes)
    }

    /// Whether the kernel is known to have chosen a process to be killed for lack of memory.
    pub fn is_victim(&self, process: u32) -> bool {
        self.kernel_image(process).is_some_and(|image| image.killed_with.is_some())
    }

    /// Its resident bytes when it was killed for lack of memory.
    pub fn resident_when_killed(&self, process: &Process) -> u64 {
        let reported = self.kernel_image(process.row.process).and_then(|image| image.killed_with);
        reported
            .map_or_else(|| self.resident_now(process), |bytes| bytes.saturating_sub(process.row.probe_bytes))
    }

    /// True while a process that is watched runs.
    pub fn watches_any(&self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.images().any_runs())
    }
}
