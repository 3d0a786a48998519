//! The figures of a recording, for clients that watch it.

use memtrace_trace::Totals;

use super::Recording;
use super::growth::Growth;
use super::placed::placed;
use super::progress::{self, seconds};
use super::subscribers::Subscribers;
use crate::live_protocol::{Figures, LISTED_MAX, Limit, Lost, Peak, Process};
use crate::record::procfs::limits;
use crate::record::state::process;

/// Characters of a command line that are sent.
const COMMAND_MAX: usize = 500;

/// What is kept for clients that watch.
#[derive(Default)]
pub struct Watched {
    pub(super) subscribers: Subscribers,
    growth: Growth,
}

impl Watched {
    /// The figures now.
    pub fn figures(&mut self, recording: &Recording) -> Figures {
        let Recording { directory, meta, fold, limit } = *recording;
        let now = seconds(fold.clock().now_ns());
        let (sites, mut stacks) = self.growth.sites(fold.sites(), now);
        let (placed, numbers) = placed(fold);
        stacks.extend(self.growth.stacks(fold.sites(), numbers.into_iter()));
        stacks.into_iter().for_each(|stack| self.subscribers.add_stack(stack));
        let (operators, operators_seen) = progress::operators(fold);
        let (spans, spans_running) = progress::spans(fold, limit);
        let running = || fold.running().filter(|process| is_running(process));
        let mut processes: Vec<Process> = running().map(|process| listed(recording, process, now)).collect();
        let sums = fold.retired().sums().with(fold.processes().map(|process| &process.row));
        let processes_running = processes.len() as u64;
        processes.sort_by_key(|process| std::cmp::Reverse((process.live_bytes, process.resident_bytes)));
        processes.truncate(LISTED_MAX);
        let (totals, devices) = (fold.totals(), fold.totals().devices());
        Figures {
            trace: directory.display().to_string(),
            command: meta.command.join(" ").chars().take(COMMAND_MAX).collect(),
            recorder: std::process::id(),
            seconds: now,
            ended: false,
            exit: None,
            signal: None,
            live_bytes: totals.live(),
            heap_bytes: totals.heap(),
            resident_bytes: running().map(|process| fold.resident_now(process)).sum(),
            device_driver_bytes: devices.map(|devices| devices.driver().now),
            device_used_bytes: devices.map(|devices| devices.used().now()),
            peak: peak(recording),
            totals: Totals { allocations: sums.allocations, requested_bytes: sums.requested_bytes },
            lost: Lost { events: sums.lost_events },
            limits: bounds(recording, &processes),
            processes_running,
            processes_ended: u64::from(fold.processes_met()) - processes_running,
            processes,
            spans,
            spans_running,
            operators,
            operators_seen,
            sites,
            placed,
        }
    }

    /// The figures of a recording that has ended, which are those of `report`.
    pub fn last_figures(&mut self, recording: &Recording) -> Figures {
        let (meta, peak) = (recording.meta, recording.meta.peak);
        Figures {
            ended: true,
            exit: meta.exit,
            signal: meta.signal,
            seconds: seconds(meta.duration_ns),
            peak: Peak {
                live_bytes: peak.live_bytes,
                heap_bytes: peak.heap_bytes,
                resident_bytes: peak.resident_bytes,
                resident_sum_bytes: peak.resident_sum_bytes,
                seconds: seconds(peak.peak_ns),
                device_driver_bytes: peak.device_driver_bytes,
                device_used_bytes: peak.device_used_bytes,
            },
            totals: meta.totals,
            lost: Lost { events: meta.lost.events },
            ..self.figures(recording)
        }
    }
}

fn peak(recording: &Recording) -> Peak {
    let (fold, totals) = (recording.fold, recording.fold.totals());
    let retired = fold.retired().sums().peak_resident_bytes;
    let resident_bytes = fold.processes().map(|process| fold.resident_peak(process)).fold(retired, u64::max);
    let devices = totals.devices();
    Peak {
        live_bytes: totals.peak_live(),
        heap_bytes: totals.peak_heap(),
        resident_bytes,
        resident_sum_bytes: recording.meta.peak.resident_sum_bytes.max(resident_bytes),
        seconds: totals.peak_stamp().map_or(0.0, |stamp| seconds(fold.clock().ns(stamp))),
        device_driver_bytes: devices.map(|devices| devices.driver().peak),
        device_used_bytes: devices.map(|devices| devices.used().peak()),
    }
}

fn listed(recording: &Recording, process: &process::Process, now: f64) -> Process {
    let fold = recording.fold;
    let devices = process.devices.as_ref();
    Process {
        process: process.row.process,
        pid: process.row.pid,
        ppid: process.row.ppid,
        rank: process.row.rank,
        command: process.row.command.chars().take(COMMAND_MAX).collect(),
        seconds: (now - seconds(fold.clock().ns(process.start))).max(0.0),
        live_bytes: process.live(),
        heap_bytes: process.heap.bytes(),
        mapped_bytes: process.mappings.mapped_bytes(),
        resident_bytes: fold.resident_now(process),
        peak_live_bytes: process.row.peak_live_bytes,
        peak_resident_bytes: fold.resident_peak(process),
        device_driver_bytes: devices.map(|devices| devices.driver()),
        device_used_bytes: devices.map(|devices| devices.used().max(0) as u64),
        peak_device_driver_bytes: devices.map(|devices| devices.driver_peak()),
    }
}

/// What bounds these processes, the bound with the least room first.
fn bounds(recording: &Recording, processes: &[Process]) -> Vec<Limit> {
    let mut found = limits::of_groups(recording.fold.cgroups());
    let shown = |process: &Process| recording.fold.process(process.process).shown.flatten();
    found.extend(processes.iter().filter_map(shown).filter_map(limits::of_address_space));
    found.extend(limits::of_machine());
    found.sort_by_key(Limit::room);
    found
}

fn is_running(process: &process::Process) -> bool {
    process.end.is_none() && process.parted.is_none()
}
