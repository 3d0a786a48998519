//! Kernel events take their place among those of the probe: whatever happened before a mapping call or before a span
//! begins or ends is folded before it, the rest at the end of each round.

use memtrace_ebpf::{Counters, Event, What};
use memtrace_trace::rows::{KernelEventRow, Pages, ProcessRow};

use super::alone::cannot_load_probe;
use super::{Held, Image, Kernel};
use crate::record::fold::Fold;
use crate::record::handshake::command_line;
use crate::record::process::Process;
use crate::record::spans::Told;

/// Shorter runs of faults get no row.
const RUN_WORTH_A_ROW: u64 = 64 << 10;

impl Fold {
    /// Takes in what the kernel side has told since.
    pub fn read_kernel(&mut self) {
        if let Some(Kernel { side: Some((side, _)), pending, unfinished, .. }) = &mut self.kernel {
            let before = pending.len();
            // In this order: a run that comes to its end in between is told of twice, not never.
            *unfinished = side.unfinished();
            side.read(|event| pending.push_back(event));
            if pending.len() > before
                && let Some(kernel) = &mut self.kernel
            {
                // A run of faults has the time of its first and is told after its last.
                kernel.pending.make_contiguous().sort_by_key(|event| event.ns);
                kernel.plan_pauses(&self.clock);
            }
        }
    }

    /// Folds what the kernel saw up to this stamp.
    pub fn kernel_until(&mut self, stamp: u64) {
        let Some(kernel) = &self.kernel else { return };
        if kernel.pending.is_empty() {
            return;
        }
        let until = self.clock.ns(stamp);
        while let Some(kernel) = &mut self.kernel
            && let Some(event) = kernel.pending.front()
            && self.clock.of_monotonic(event.ns) <= until
            && let Some(event) = kernel.pending.pop_front()
        {
            self.kernel_event(event);
        }
    }

    /// A process has said hello: from now on it is known which image it is.
    pub fn kernel_met(&mut self, pid: u32, process: u32, stamp: u64) {
        self.read_kernel();
        self.kernel_until(stamp);
        let ns = self.clock.to_monotonic(stamp);
        let stood_for_it = self.kernel.as_mut().and_then(|kernel| kernel.images.met(pid, process, ns));
        if let Some(alone) = stood_for_it {
            self.end_process(alone, stamp);
        }
    }

    /// A probe has said hello in a process that the command did not start: whoever knows the token may join (the workers
    /// of a Dask nanny do). The kernel side watches it from now on, and its children.
    pub fn kernel_joined(&mut self, pid: u32, stamp: u64, command: &str) {
        let Some(side) = self.kernel.as_mut().and_then(Kernel::side) else { return };
        // One that the command started is watched until it exits, which it may have done by now: its memory is gone
        // before the tracepoint of its exit fires (exit_mm in do_exit). Where there is no room for one more, /proc is read.
        if side.watches(pid) || !has_memory(pid) || side.watch(pid).is_err() {
            return;
        }
        let (begin_ns, command) = (self.clock.to_monotonic(stamp), command.to_string());
        self.begin(Image { pid, begin_ns, executed: true, command, ..Image::default() });
    }

    fn kernel_event(&mut self, event: Event) {
        let ns = self.clock.of_monotonic(event.ns);
        let mut row = KernelEventRow { pid: event.pid, tid: event.tid, time_ns: ns, ..Default::default() };
        row.process = self.image(event.pid).and_then(|image| image.process);
        match event.what {
            What::Resident { now, high, high_ns } => {
                self.resident(event.pid, now, high, high_ns);
                row.event = "resident".into();
                (row.bytes, row.pages) = (Some(high), Some(pages(&now)));
                row.took_ns = Some(event.ns.saturating_sub(high_ns) as i64);
            }
            What::Faults { address, bytes, faults, .. } => {
                if let Some(process) = row.process {
                    let begun = self.clock.stamp_of_monotonic(event.ns);
                    self.faulted(process, address, bytes, begun, begun);
                }
                if bytes < RUN_WORTH_A_ROW {
                    return;
                }
                row.event = "faults".into();
                (row.address, row.bytes, row.value) = (Some(address), Some(bytes), Some(faults as i64));
            }
            What::Fork { parent, .. } => {
                let of = self.image(parent).cloned().unwrap_or_default();
                let (command, alone) = (of.command, of.alone);
                let program_break = of.program_break;
                let image =
                    Image { pid: event.pid, parent, begin_ns: event.ns, command, alone, ..Image::default() };
                self.begin(Image { program_break, ..image });
                row.event = "fork".into();
                (row.process, row.value) = (None, Some(i64::from(parent)));
            }
            What::Exec { name } => {
                let parent = self.image(event.pid).map_or(0, |image| image.parent);
                let command = command_of(event.pid, &name);
                let alone = self.attached || cannot_load_probe(event.pid, &self.sites.token);
                if let Some(kernel) = self.kernel.as_mut().filter(|_| alone) {
                    kernel.ask_for_calls();
                }
                let image =
                    Image { pid: event.pid, parent, begin_ns: event.ns, command, alone, ..Image::default() };
                self.begin(Image { executed: true, ..image });
                row.event = "exec".into();
                row.process = None;
            }
            What::End { at_peak, peak, peak_ns } => {
                self.end_alone(event.pid, event.ns);
                if let Some(image) = self.image(event.pid) {
                    if peak > image.peak {
                        image.held_at_peak = image.held_since.or(image.held_at_peak);
                    }
                    (image.peak, image.peak_ns, image.at_peak) = (peak, peak_ns, at_peak);
                    (image.end_ns, image.told_end) = (Some(event.ns), true);
                }
                row.event = "end".into();
                (row.bytes, row.pages) = (Some(peak), Some(pages(&at_peak)));
                row.took_ns = Some(event.ns.saturating_sub(peak_ns) as i64);
            }
            What::Counts { faults, by_kernel, thinned } => {
                if let Some(image) = self.image(event.pid) {
                    image.faults += faults + by_kernel;
                    image.thinned += thinned;
                }
                return;
            }
            What::Exit { status } => {
                if let Some(image) = self.image(event.pid) {
                    image.end_ns = Some(event.ns);
                    image.status = Some(status);
                }
                row.event = "exit".into();
                row.value = Some(i64::from(status));
            }
            What::Victim => {
                if let Some(image) = self.image(event.pid) {
                    image.victim = true;
                }
                row.event = "oom_victim".into();
            }
            What::Signal { number, .. } => {
                row.event = "signal".into();
                row.value = Some(i64::from(number));
            }
            What::Reclaim { took_ns, bytes } => {
                row.event = "reclaim".into();
                (row.bytes, row.took_ns) = (Some(bytes), Some(took_ns as i64));
            }
            What::Call(call) => {
                let Some(process) = self.process_alone(event.pid) else { return };
                row.process = Some(process);
                self.call(process, event.tid, event.ns, &call, &mut row);
            }
            What::Function { index, arguments } => {
                row.event = "function".into();
                row.value = Some(i64::from(index));
                (row.address, row.bytes) = (Some(arguments[0]), Some(arguments[1]));
            }
        }
        self.write(|out| out.kernel_event(row));
    }

    /// Runs of faults that went on when the kernel side was last read, and began by then.
    pub(super) fn fold_unfinished(&mut self, until: u64) {
        let until = self.clock.to_monotonic(until);
        let Some(kernel) = &mut self.kernel else { return };
        let events: Vec<Event> = kernel.unfinished.extract_if(.., |event| event.ns <= until).collect();
        for event in events {
            let What::Faults { address, bytes, .. } = event.what else { continue };
            if let Some(process) = self.image(event.pid).and_then(|image| image.process) {
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

    /// The recording ends: takes in the peaks of processes that run on, and detaches the programs. A sentence on what was missing.
    pub fn end_kernel(&mut self, stamp: u64) -> Option<String> {
        self.read_kernel();
        self.kernel_until(stamp);
        let kernel = self.kernel.as_mut()?;
        let last = std::mem::take(&mut kernel.pending);
        last.into_iter().for_each(|event| self.kernel_event(event));
        self.fold_unfinished(stamp);
        let kernel = self.kernel.as_mut()?;
        for left in kernel.side().map(|side| side.leftovers()).unwrap_or_default() {
            let image = match left.ended {
                true => kernel.images.untold(left.pid),
                false => kernel.images.latest(left.pid),
            };
            if let Some(image) = image.filter(|image| left.peak > image.peak) {
                (image.peak, image.at_peak) = (left.peak, left.at_peak);
                image.peak_ns = left.peak_ns;
            }
        }
        let missing = kernel.detach();
        // Of what was executed or forked, and never said hello, only its resident memory is known. Between fork and exec
        // there is nothing to tell of.
        let unmet =
            |image: &&Image| image.process.is_none() && image.peak > 0 && (image.executed || !image.replaced);
        let unmet: Vec<Image> = kernel.images.iter().filter(unmet).cloned().collect();
        for image in unmet {
            let index = self.add_alone(&image);
            if let Some(ns) = image.end_ns {
                let stamp = self.clock.stamp_of_monotonic(ns);
                self.at(stamp);
                self.end_process(index, stamp);
            }
        }
        missing
    }

    /// Whether the kernel is known to have chosen a process to be killed for lack of memory.
    pub fn is_victim(&self, process: u32) -> bool {
        self.kernel_image(process).is_some_and(|image| image.victim)
    }

    /// True while a process that is watched runs.
    pub fn watches_any(&self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.images.any_runs())
    }

    /// What `meta.json` says of the kernel side.
    pub fn kernel_recorded(&self) -> Option<(String, String)> {
        let error = || ("kernel_clock_error_ns".to_string(), self.clock.error_ns().to_string());
        self.kernel.as_ref().map(|_| error())
    }

    /// Resident bytes of a process as they were last told, or looked up.
    pub fn resident_now(&self, process: &Process) -> u64 {
        let told = self.kernel_image(process.row.process).map_or(0, |image| image.now.resident());
        if told > 0 { told.saturating_sub(process.row.probe_bytes) } else { process.resident_now }
    }

    /// Events for which there was no room.
    pub fn lost_by_kernel(&self) -> u64 {
        self.kernel.as_ref().map_or(0, Kernel::lost)
    }

    /// A row with what the kernel saw of its process.
    pub fn with_kernel(&self, row: ProcessRow) -> ProcessRow {
        let Some(image) = self.kernel_image(row.process) else { return row };
        let row = ProcessRow { exit: row.exit.or(image.status.map(exit_code)), ..row };
        if image.peak == 0 {
            return row;
        }
        let at_peak = &image.at_peak;
        ProcessRow {
            peak_resident_bytes: image.peak.saturating_sub(row.probe_bytes),
            resident_peak_ns: Some(self.clock.of_monotonic(image.peak_ns)),
            resident_anon_bytes: Some(at_peak.anon),
            resident_file_bytes: Some(at_peak.file),
            resident_shmem_bytes: Some(at_peak.shmem),
            resident_live_bytes: image.held_at_peak.map(|held| held.live),
            resident_untouched_bytes: image.held_at_peak.map(|held| held.untouched),
            resident_mapped_bytes: image.held_at_peak.map(|held| held.mapped),
            page_faults: (image.faults > 0).then_some(image.faults),
            ..row
        }
    }

    pub(super) fn image(&mut self, pid: u32) -> Option<&mut Image> {
        self.kernel.as_mut()?.images.latest(pid)
    }

    /// What the kernel saw of a process.
    pub fn kernel_image(&self, process: u32) -> Option<&Image> {
        self.kernel.as_ref()?.images.of(process)
    }

    pub(super) fn begin(&mut self, image: Image) {
        if let Some(kernel) = &mut self.kernel {
            kernel.images.begin(image);
        }
    }

    /// Resident memory of a process has moved.
    fn resident(&mut self, pid: u32, now: Counters, high: u64, high_ns: u64) {
        let high_stamp = self.clock.stamp_of_monotonic(high_ns);
        let Some(image) = self.image(pid) else { return };
        let before = std::mem::replace(&mut image.now, now);
        let rose = now.resident() > before.resident();
        let higher = high >= image.peak;
        // Where it has fallen meanwhile, what it was made of at its highest is known of the step before; the end of the
        // image tells exactly.
        let of_what = if rose { now } else { before };
        let anon = high.saturating_sub(of_what.file + of_what.shmem);
        if higher {
            (image.peak, image.peak_ns) = (high, high_ns);
            image.at_peak = Counters { anon, swap: now.swap, ..of_what };
        }
        let (process, since) = (image.process, image.held_since);
        let Some(index) = process else { return };
        let process = &mut self.processes[index as usize];
        let held = Held::by(process);
        let own = |bytes: u64| bytes.saturating_sub(process.row.probe_bytes);
        let told = Told {
            now: own(now.resident()),
            file_now: now.file,
            held_now: held,
            high: own(high),
            high_stamp,
            file: of_what.file,
            held: if rose { held } else { since.unwrap_or(held) },
        };
        process.resident_now = told.now;
        self.spans.resident_told(index, &told);
        if let Some(image) = self.image(pid) {
            image.held_since = Some(held);
            if higher || image.held_at_peak.is_none() {
                image.held_at_peak = Some(told.held);
            }
        }
    }

    /// A span has begun: from here on, resident memory is its own.
    pub fn note_resident_before(&mut self, process: u32, span: u32) {
        let Some(image) = self.kernel_image(process).filter(|image| image.now.resident() > 0) else { return };
        let of = &self.processes[process as usize];
        let resident = image.now.resident().saturating_sub(of.row.probe_bytes);
        self.spans.resident_before(span, resident, image.now.file, Held::by(of));
    }
}

/// As a shell gives it, from a wait status (wait(2)).
fn exit_code(status: u32) -> i32 {
    let signal = (status & 0x7f) as i32;
    if signal != 0 { 128 + signal } else { (status >> 8 & 0xff) as i32 }
}

/// What is told of pages in a trace.
pub fn pages(counters: &Counters) -> Pages {
    Pages { anon: counters.anon, file: counters.file, shmem: counters.shmem, swap: counters.swap }
}

/// The command line as /proc has it, if the process is still there.
pub(super) fn command_of(pid: u32, name: &[u8; 16]) -> String {
    let line = command_line(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    if !line.is_empty() {
        return line;
    }
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// True of a process that has not begun to exit, by proc(5), statm.
fn has_memory(pid: u32) -> bool {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    pages.split_whitespace().next().is_some_and(|size| size != "0")
}
