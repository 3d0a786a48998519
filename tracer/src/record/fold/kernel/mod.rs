//! Kernel events take their place among those of the probe: what happened before a mapping call or
//! before a span begins or ends is folded before it, the rest at the end of each round.

mod calls;
mod uninstrumented;
mod untouched;

use memtrace_ebpf::{Counters, Event, What};
use memtrace_trace::rows::KernelEventRow;

use super::Fold;
use crate::record::kernel::{Image, Kernel, describe};
use crate::record::procfs::executable::cannot_load_probe;
use crate::record::procfs::status::{command_of, is_exiting};
use crate::record::spans::ResidentChange;
use crate::record::state::footprint::Footprint;

impl Fold {
    /// Takes in what the kernel side has reported since.
    pub(super) fn read_kernel(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.read(&self.clock);
        }
    }

    /// Folds what the kernel saw up to this stamp.
    pub(super) fn kernel_until(&mut self, stamp: u64) {
        let Some(kernel) = &self.kernel else { return };
        if !kernel.has_pending() {
            return;
        }
        let until = self.clock.to_monotonic(stamp);
        while let Some(kernel) = &mut self.kernel
            && let Some(event) = kernel.next_until(until)
        {
            self.kernel_event(event);
        }
    }

    /// A process has said hello: from now on it is known which image it is.
    pub(super) fn kernel_met(&mut self, pid: u32, process: u32, stamp: u64) {
        self.read_kernel();
        self.kernel_until(stamp);
        let ns = self.clock.to_monotonic(stamp);
        let stood_for_it = self.kernel.as_mut().and_then(|kernel| kernel.images_mut().met(pid, process, ns));
        if let Some(uninstrumented) = stood_for_it {
            self.end_process(uninstrumented, stamp);
        }
    }

    /// A probe has said hello in a process that the command did not start: any process that knows
    /// the token may join (the workers of a Dask nanny do). The kernel side watches it from now on,
    /// and its children.
    pub(super) fn kernel_joined(&mut self, pid: u32, stamp: u64, command: &str) {
        let Some(programs) = self.kernel_programs() else { return };
        // One that the command started is watched until the tracepoint of its exit, which may be
        // over by now: it is then marked as exiting. Where there is no room for one more, /proc is
        // read.
        if programs.watches(pid) || is_exiting(pid) || programs.watch(pid).is_err() {
            return;
        }
        let (begin_ns, command) = (self.clock.to_monotonic(stamp), command.to_string());
        self.begin_image(Image { pid, begin_ns, executed: true, command, ..Image::default() });
    }

    fn kernel_event(&mut self, event: Event) {
        let time_ns = self.clock.of_monotonic(event.ns);
        let process = self.image_mut(event.pid).and_then(|image| image.process);
        let row = KernelEventRow { pid: event.pid, tid: event.tid, time_ns, process, ..Default::default() };
        let row = match event.what {
            What::Call(call) => self.call(&event, &call, row),
            _ => {
                self.apply(&event, process);
                describe(&event, row)
            }
        };
        if let Some(row) = row {
            self.rows.kernel_event(row);
        }
    }

    /// What an event changes; `process` is the one that it is about, if that has a row.
    fn apply(&mut self, event: &Event, process: Option<u32>) {
        match event.what {
            What::Resident { now, high, high_ns } => self.resident(event.pid, now, high, high_ns),
            What::Faults { address, bytes, .. } => {
                if let Some(process) = process {
                    let begun = self.clock.stamp_of_monotonic(event.ns);
                    self.faulted(process, address, bytes, begun, begun);
                }
            }
            What::Fork { parent, .. } => self.image_forked(event, parent),
            What::Exec { name } => self.image_executed(event, &name),
            What::End { at_peak, peak, peak_ns } => {
                self.end_uninstrumented(event.pid, event.ns);
                if let Some(image) = self.image_mut(event.pid) {
                    image.end(event.ns, at_peak, peak, peak_ns);
                }
            }
            What::Counts { faults, by_kernel, thinned } => {
                if let Some(image) = self.image_mut(event.pid) {
                    image.faults += faults + by_kernel;
                    image.thinned += thinned;
                }
            }
            What::Exit { status } => {
                if let Some(image) = self.image_mut(event.pid) {
                    (image.end_ns, image.status) = (Some(event.ns), Some(status));
                }
            }
            What::Victim => {
                if let Some(image) = self.image_mut(event.pid) {
                    image.killed_with = Some(image.now.resident());
                }
            }
            What::Signal { .. } | What::Reclaim { .. } | What::Call(_) | What::Function { .. } => {}
        }
    }

    fn image_forked(&mut self, event: &Event, parent: u32) {
        let of = self.image_mut(parent).cloned().unwrap_or_default();
        self.begin_image(Image {
            pid: event.pid,
            parent,
            begin_ns: event.ns,
            command: of.command,
            uninstrumented: of.uninstrumented,
            program_break: of.program_break,
            ..Image::default()
        });
    }

    fn image_executed(&mut self, event: &Event, name: &[u8; 16]) {
        let parent = self.image_mut(event.pid).map_or(0, |image| image.parent);
        let command = command_of(event.pid, name);
        let uninstrumented = self.attached || cannot_load_probe(event.pid, &self.token);
        if let Some(kernel) = self.kernel.as_mut().filter(|_| uninstrumented) {
            kernel.request_calls();
        }
        self.begin_image(Image {
            pid: event.pid,
            parent,
            begin_ns: event.ns,
            command,
            uninstrumented,
            executed: true,
            ..Image::default()
        });
    }

    /// Runs of faults that went on when the kernel side was last read, and began by then.
    pub(super) fn fold_unfinished(&mut self, until: u64) {
        let until = self.clock.to_monotonic(until);
        let Some(kernel) = &mut self.kernel else { return };
        for event in kernel.take_unfinished(until) {
            let What::Faults { address, bytes, .. } = event.what else { continue };
            if let Some(process) = self.image_mut(event.pid).and_then(|image| image.process) {
                let begun = self.clock.stamp_of_monotonic(event.ns);
                self.faulted(process, address, bytes, begun, self.clock.stamp());
            }
        }
    }

    /// Takes in all that is known by now.
    pub fn fold_last_faults(&mut self) {
        let now = self.clock.stamp();
        self.read_kernel();
        self.kernel_until(now);
        self.fold_unfinished(now);
    }

    /// The recording ends: takes in the peaks of processes that run on, and detaches the programs.
    /// A sentence on what was missing.
    pub fn end_kernel(&mut self, stamp: u64) -> Option<String> {
        self.read_kernel();
        self.kernel_until(stamp);
        let last = self.kernel.as_mut().map(Kernel::take_pending)?;
        last.into_iter().for_each(|event| self.kernel_event(event));
        self.fold_unfinished(stamp);
        let kernel = self.kernel.as_mut()?;
        kernel.read_leftovers();
        let missing = kernel.detach();
        self.add_unmet();
        missing
    }

    /// What `meta.json` has of the kernel side.
    pub fn kernel_recorded(&self) -> Option<(String, String)> {
        let error = || ("kernel_clock_error_ns".to_string(), self.clock.error_ns().to_string());
        self.kernel.as_ref().map(|_| error())
    }

    /// The image that runs, or ran last, under a pid.
    fn image_mut(&mut self, pid: u32) -> Option<&mut Image> {
        self.kernel.as_mut()?.images_mut().latest_mut(pid)
    }

    fn begin_image(&mut self, image: Image) {
        if let Some(kernel) = &mut self.kernel {
            kernel.images_mut().begin(image);
        }
    }

    /// Notes the footprint of a process before it releases some of its memory.
    pub(super) fn note_footprint(&mut self, index: u32) {
        let footprint = Footprint::of(&self.processes[index]);
        let image = self.kernel.as_mut().and_then(|kernel| kernel.images_mut().of_mut(index));
        image.into_iter().for_each(|image| image.note_footprint(footprint));
    }

    /// Resident memory of a process has moved.
    fn resident(&mut self, pid: u32, now: Counters, high: u64, high_ns: u64) {
        let high_stamp = self.clock.stamp_of_monotonic(high_ns);
        let Some(image) = self.image_mut(pid) else { return };
        let moved = image.moved(now, high, high_ns);
        let Some(index) = moved.process else { return };
        let process = &mut self.processes[index];
        let footprint_now = Footprint::of(process);
        let own = |bytes: u64| bytes.saturating_sub(process.row.probe_bytes);
        let change = ResidentChange {
            now: own(now.resident()),
            file_now: now.file,
            footprint_now,
            high: own(high),
            high_stamp,
            file: moved.at_high.file,
            footprint: if moved.rose {
                footprint_now
            } else {
                moved.footprint_since.unwrap_or(footprint_now)
            },
        };
        process.residency.note_now(change.now);
        self.spans.resident_changed(index, &change);
        if let Some(image) = self.image_mut(pid) {
            image.footprint_since = Some(footprint_now);
            if moved.higher || image.footprint_at_peak.is_none() {
                image.footprint_at_peak = Some(change.footprint);
            }
        }
    }
}
