//! Tells those who watch a recording how it stands (`memtrace top`), and what spans have ended those who listen for
//! them. Nothing is done, and nothing kept, while nobody watches; all is made out of what is folded anyway.

mod audience;
mod growth;
mod listener;
mod progress;

use std::os::unix::net::UnixStream;
use std::time::Duration;

use memtrace_trace::Totals;

use self::audience::{Audience, Viewer};
use self::growth::Growth;
use self::listener::Listener;
use self::progress::{Progress, seconds};
use super::limits;
use super::process;
use super::session::Session;
use crate::top::{Figures, LISTED_MAX, Limit, Line, Lost, Message, Peak, Process, Request};

/// Characters of a command line that are told.
const COMMAND_MAX: usize = 500;

/// Somebody who has come to watch.
pub struct Visitor {
    /// The connection.
    pub stream: UnixStream,
    /// What it asked for.
    pub request: Request,
}

/// The live view's side of a recording.
#[derive(Default)]
pub struct Live {
    figures: Watched,
    listeners: Vec<Listener>,
}

/// What is kept for those who want figures.
#[derive(Default)]
struct Watched {
    audience: Audience,
    progress: Progress,
    growth: Growth,
}

impl Live {
    /// The recording has ended; its trace is complete.
    pub fn tell_last(&mut self, figures: Figures) {
        self.figures.audience.tell_last(&Message::Figures(Box::new(figures)));
    }
}

impl Session {
    /// Tells those who watch, if anybody does.
    pub(super) fn publish(&mut self) {
        self.admit();
        let fold = &self.fold;
        self.live.listeners.retain_mut(|listener| listener.tell(fold));
        if self.live.figures.audience.is_empty() {
            // Nothing is kept for those who have left.
            self.live.figures = Watched::default();
            return;
        }
        // In a recording of many spans the first look takes several rounds.
        if self.live.figures.audience.is_due() && self.live.figures.progress.follow(&self.fold) {
            let figures = self.figures();
            self.live.figures.audience.tell(&Message::Figures(Box::new(figures)));
        }
    }

    /// Everything has ended: tells those who listen of all spans they have not been told of.
    pub(super) fn tell_last_spans(&mut self) {
        self.admit();
        let fold = &self.fold;
        self.live.listeners.retain_mut(|listener| listener.tell_last(fold));
    }

    fn admit(&mut self) {
        for Visitor { stream, request } in self.doorman.visitors.try_iter() {
            match request {
                Request::Figures { every_ms } => {
                    let viewer = Viewer::new(stream, Duration::from_millis(every_ms.into()));
                    viewer.into_iter().for_each(|viewer| self.live.figures.audience.admit(viewer));
                }
                Request::Spans => {
                    let line = Line::Recording {
                        trace: self.directory.display().to_string(),
                        host: self.meta.host.clone(),
                        recorder: std::process::id(),
                        start_unix_ns: self.meta.start_unix_ns,
                    };
                    self.live.listeners.extend(Listener::new(stream, &line));
                }
            }
        }
    }

    /// The figures that are the last, if anybody watches; everything has ended.
    pub(super) fn last_figures(&mut self) -> Option<Figures> {
        self.admit();
        if self.live.figures.audience.is_empty() {
            return None;
        }
        while !self.live.figures.progress.follow(&self.fold) {}
        let peak = self.meta.peak;
        Some(Figures {
            ended: true,
            exit: self.meta.exit,
            signal: self.meta.signal,
            seconds: seconds(self.meta.duration_ns),
            peak: Peak {
                live_bytes: peak.live_bytes,
                heap_bytes: peak.heap_bytes,
                resident_bytes: peak.resident_bytes,
                resident_sum_bytes: peak.resident_sum_bytes,
                seconds: seconds(peak.peak_ns),
                device_driver_bytes: peak.device_driver_bytes,
                device_used_bytes: peak.device_used_bytes,
            },
            totals: self.meta.totals,
            lost: Lost { events: self.meta.lost.events },
            ..self.figures()
        })
    }

    fn figures(&mut self) -> Figures {
        let fold = &self.fold;
        let now = seconds(fold.clock.now_ns());
        let (sites, stacks) = self.live.figures.growth.sites(&fold.sites, now);
        stacks.into_iter().for_each(|stack| self.live.figures.audience.add_stack(stack));
        let (operators, operators_seen) = self.live.figures.progress.operators();
        let (spans, spans_running) = self.live.figures.progress.spans(fold, &self.limit);
        let running = || fold.processes.iter().filter(|process| is_running(process));
        let mut processes: Vec<Process> = running().map(|process| self.process(process, now)).collect();
        let sum = |field: fn(&process::Process) -> u64| fold.processes.iter().map(field).sum::<u64>();
        let processes_running = processes.len() as u64;
        processes.sort_by_key(|process| std::cmp::Reverse((process.live_bytes, process.resident_bytes)));
        processes.truncate(LISTED_MAX);
        Figures {
            trace: self.directory.display().to_string(),
            command: self.meta.command.join(" ").chars().take(COMMAND_MAX).collect(),
            recorder: std::process::id(),
            seconds: now,
            ended: false,
            exit: None,
            signal: None,
            live_bytes: fold.total.live,
            heap_bytes: fold.total.heap,
            resident_bytes: running().map(|process| fold.resident_now(process)).sum(),
            device_driver_bytes: fold.total.has_devices.then_some(fold.total.device_driver.now),
            device_used_bytes: fold.total.has_devices.then(|| fold.total.device_used.now()),
            peak: self.peak(),
            totals: Totals {
                allocations: sum(|process| process.row.allocations),
                requested_bytes: sum(|process| process.row.requested_bytes),
            },
            lost: Lost { events: sum(|process| process.row.lost_events) },
            limits: self.limits(&processes),
            processes_running,
            processes_ended: fold.processes.len() as u64 - processes_running,
            processes,
            spans,
            spans_running,
            operators,
            operators_seen,
            sites,
        }
    }

    fn peak(&self) -> Peak {
        let total = &self.fold.total;
        let resident_bytes = self.fold.processes.iter().map(|process| self.peak_resident(process)).max();
        let resident_bytes = resident_bytes.unwrap_or(0);
        Peak {
            live_bytes: total.peak_live,
            heap_bytes: total.peak_heap,
            resident_bytes,
            resident_sum_bytes: self.meta.peak.resident_sum_bytes.max(resident_bytes),
            seconds: if total.peak_live > 0 { seconds(self.fold.clock.ns(total.peak)) } else { 0.0 },
            device_driver_bytes: total.has_devices.then_some(total.device_driver.peak),
            device_used_bytes: total.has_devices.then(|| total.device_used.peak()),
        }
    }

    fn peak_resident(&self, process: &process::Process) -> u64 {
        let told = self.fold.kernel_image(process.row.process).map_or(0, |image| image.peak);
        let peak = if told > 0 { told } else { process.resident_peak };
        peak.saturating_sub(process.row.probe_bytes)
    }

    fn process(&self, process: &process::Process, now: f64) -> Process {
        Process {
            process: process.row.process,
            pid: process.row.pid,
            ppid: process.row.ppid,
            command: process.row.command.chars().take(COMMAND_MAX).collect(),
            seconds: (now - seconds(self.fold.clock.ns(process.start))).max(0.0),
            live_bytes: process.live(),
            heap_bytes: process.heap,
            mapped_bytes: process.mappings.mapped_bytes(),
            resident_bytes: self.fold.resident_now(process),
            peak_live_bytes: process.row.peak_live_bytes,
            peak_resident_bytes: self.peak_resident(process),
            device_driver_bytes: process.devices.as_ref().map(|devices| devices.driver()),
            device_used_bytes: process.devices.as_ref().map(|devices| devices.used().max(0) as u64),
            peak_device_driver_bytes: process.devices.as_ref().map(|devices| devices.driver_peak()),
        }
    }

    /// What bounds these processes, the bound with the least room first.
    fn limits(&self, processes: &[Process]) -> Vec<Limit> {
        let mut found = limits::of_groups(&self.fold.cgroups);
        let shown = |process: &Process| self.fold.processes[process.process as usize].shown.flatten();
        found.extend(processes.iter().filter_map(shown).filter_map(limits::of_address_space));
        found.extend(limits::of_machine());
        found.sort_by_key(Limit::room);
        found
    }
}

fn is_running(process: &process::Process) -> bool {
    process.end.is_none() && process.parted.is_none()
}
