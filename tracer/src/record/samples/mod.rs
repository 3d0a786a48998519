//! What perf events sample of the recorded processes: page faults where no BPF program reports
//! them, and memory accesses if they are requested (`--accesses`), joined with what was live when
//! they happened.

mod faults;
mod reader;

use std::collections::VecDeque;
use std::path::Path;

use memtrace_perf::{Error, Event, Missing, Record, Sampler, What, memory_events};
use memtrace_trace::rows::{ProcessRow, ThreadRow};
use rustc_hash::FxHashMap;

use self::faults::FaultRuns;
pub use self::faults::{Counter, Touched};
use self::reader::Reader;
pub use self::reader::Sampled;
use super::kernel::{Image, Images};
use super::transport::clock::Clock;

/// Which memory accesses are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accesses {
    /// None.
    Off,
    /// Loads and stores, by the processor (PEBS, IBS), where it can.
    Hardware,
    /// What the instructions touch that take the time of a thread, at so many moments a second of it:
    /// everywhere.
    Clock,
    /// The first touch of each page only, by its fault: everywhere, at the cost of a third of a
    /// fault.
    Faults,
}

impl Accesses {
    fn name(self) -> &'static str {
        match self {
            Accesses::Off => "off",
            Accesses::Hardware => "hardware",
            Accesses::Clock => "clock",
            Accesses::Faults => "faults",
        }
    }
}

/// One in this many faults is sampled if they are only counted: that costs 5 to 6 % of the time of
/// first touches (each of 16: 11 %, each: 34 % and more).
const FAULTS_PERIOD: u64 = 64;

/// Moments of a thread's time in each second that are sampled.
const CLOCK_HERTZ: u64 = 1000;

/// Where units list what they can sample.
const UNITS: &str = "/sys/bus/event_source/devices";

/// Events at work, and the samples that are not folded yet.
#[derive(Default)]
pub struct Samples {
    readers: Vec<Reader>,
    /// In the order of time.
    pending: VecDeque<Sampled>,
    /// Samples are joined with blocks and get rows.
    joins: bool,
    /// Those of faults too.
    joins_faults: bool,
    /// Faults are counted; each sample stands for this many.
    counts: Option<u64>,
    /// Processes as samples of faults show them.
    images: Images,
    /// Indices into `processes` by pid, in the order in which they began.
    processes: FxHashMap<u32, Vec<u32>>,
    /// The other way round.
    pids: FxHashMap<u32, u32>,
    /// Indices into `threads`, by process and kernel id.
    threads: FxHashMap<(u32, u32), u32>,
    runs: FaultRuns,
    /// Samples of programs that are not recorded.
    strangers: u64,
}

/// What `meta.recorded` has of it.
pub type Recorded = Vec<(String, String)>;

impl Samples {
    /// Opens events for the programs that this thread will start: faults to be counted if nothing
    /// else `sees_faults`.
    pub fn open(requested: Accesses, sees_faults: bool) -> (Samples, Recorded) {
        let mut samples = Samples::default();
        let mut recorded = vec![("accesses".into(), requested.name().into())];
        let note_why = |recorded: &mut Recorded, what: &str, why: &Error| {
            recorded.push((format!("{what}_why"), why.to_string()));
        };
        if requested == Accesses::Hardware {
            match samples.open_hardware() {
                Ok(names) => recorded.push(("accesses_events".into(), names)),
                Err(error) => note_why(&mut recorded, "accesses", &error),
            }
        }
        if requested == Accesses::Clock {
            match samples.add(&Event::clock(CLOCK_HERTZ)) {
                Ok(_) => {
                    samples.joins = true;
                    recorded.push(("accesses_events".into(), "cpu-clock".into()));
                }
                Err(error) => note_why(&mut recorded, "accesses", &error),
            }
        }
        if requested != Accesses::Faults && sees_faults {
            return (samples, recorded);
        }
        let period = if requested == Accesses::Faults { 1 } else { FAULTS_PERIOD };
        match samples.add(&Event::page_faults(period)) {
            Ok(user_only) => {
                samples.joins_faults = requested == Accesses::Faults;
                samples.joins |= samples.joins_faults;
                samples.counts = (!sees_faults).then_some(period);
                if requested == Accesses::Faults {
                    recorded.push(("accesses_events".into(), "page-faults".into()));
                }
                if !sees_faults {
                    let how = if user_only { "perf_user" } else { "perf" };
                    recorded.push(("page_faults".into(), how.into()));
                    recorded.push(("page_faults_period".into(), period.to_string()));
                }
            }
            Err(error) => {
                if requested == Accesses::Faults {
                    note_why(&mut recorded, "accesses", &error);
                }
                if !sees_faults {
                    recorded.push(("page_faults".into(), "off".into()));
                    note_why(&mut recorded, "page_faults", &error);
                }
            }
        }
        (samples, recorded)
    }

    fn open_hardware(&mut self) -> Result<String, Error> {
        let events = memory_events(Path::new(UNITS));
        if events.is_empty() {
            return Err(Error::NoUnit);
        }
        // One kind of access is better than none.
        let results: Vec<_> = events.iter().map(|event| (event, self.add(event))).collect();
        let (opened, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(|(_, result)| result.is_ok());
        if opened.is_empty()
            && let Some((_, Err(error))) = failed.into_iter().next()
        {
            return Err(error);
        }
        self.joins = true;
        let names: Vec<&str> = opened.iter().map(|(event, _)| event.name.as_str()).collect();
        Ok(names.join(", "))
    }

    /// Opens an event; whether it leaves the kernel out.
    fn add(&mut self, event: &Event) -> Result<bool, Error> {
        let sampler = Sampler::open(event)?;
        let user_only = sampler.user_only;
        self.readers.push(Reader::start(sampler));
        Ok(user_only)
    }

    /// What could not be sampled.
    pub fn missing(&self) -> Missing {
        self.readers.iter().map(Reader::missing).fold(Missing::default(), |sum, one| Missing {
            lost: sum.lost + one.lost,
            throttled: sum.throttled + one.throttled,
            damaged: sum.damaged + one.damaged,
        })
    }

    /// A sentence on what is missing.
    pub fn note(&self) -> Option<String> {
        let Missing { lost, throttled, damaged } = self.missing();
        let what = [
            (lost + damaged, "samples of page faults or accesses found no room or made no sense"),
            (throttled, "times the kernel took no samples for a moment, because there were too many"),
        ];
        let losses =
            what.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let losses: Vec<String> = losses.collect();
        let strangers = || match self.strangers {
            0 => None,
            count => {
                Some(format!("{count} samples came from programs that are not recorded, and are left out."))
            }
        };
        let bounds =
            (!losses.is_empty()).then(|| format!("{}: counts of them are lower bounds.", losses.join("; ")));
        let sentences: Vec<String> = bounds.into_iter().chain(strangers()).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// Notes new images, and how many faults each had.
    fn count(&mut self, record: &Record) {
        let counted = match (&record.what, self.counts) {
            (What::Sample { memory: None, .. }, Some(period)) => period,
            (What::Fork { .. } | What::Exec, _) => 0,
            _ => return,
        };
        let begins = counted == 0 || self.images.latest(record.pid).is_none();
        if begins {
            let executed = matches!(record.what, What::Exec);
            let image = Image { pid: record.pid, begin_ns: record.ns, executed, ..Image::default() };
            self.images.begin(image);
        }
        if let Some(image) = self.images.latest_mut(record.pid) {
            image.faults += counted;
        }
    }

    /// Takes in what was sampled since.
    pub fn read(&mut self) {
        let mut new = Vec::new();
        self.readers.iter().for_each(|reader| reader.take(&mut new));
        if new.is_empty() {
            return;
        }
        // Each processor has a ring of its own.
        new.sort_by_key(|sampled| sampled.record.ns);
        new.iter().for_each(|sampled| self.count(&sampled.record));
        let late = self.pending.back().is_some_and(|last| last.record.ns > new[0].record.ns);
        let is_sample = |what: &What| matches!(what, What::Sample { .. } | What::Clock(_));
        self.pending.extend(new.into_iter().filter(|sampled| is_sample(&sampled.record.what)));
        if late {
            self.pending.make_contiguous().sort_by_key(|sampled| sampled.record.ns);
        }
    }

    /// True if samples wait to be folded.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The stamp of the next sample that is to be joined with what is live then, up to the horizon.
    pub fn pause(&self, clock: &Clock, horizon: u64) -> Option<u64> {
        let first = self.pending.front().filter(|_| self.joins)?;
        // The sample itself is to be folded then, however times are rounded; what follows it at once,
        // such as the release of what it touched, is not.
        Some(clock.stamp_past_monotonic(first.record.ns)).filter(|stamp| *stamp <= horizon)
    }

    /// The next sample up to a time of CLOCK_MONOTONIC.
    pub fn next_until(&mut self, until_ns: u64) -> Option<Sampled> {
        let sampled = self.pending.front()?;
        if sampled.record.ns <= until_ns { self.pending.pop_front() } else { None }
    }

    /// What was sampled of a process, up to now.
    pub fn take_of(&mut self, process: u32) -> VecDeque<Sampled> {
        self.read();
        let Some(&pid) = self.pids.get(&process) else { return VecDeque::new() };
        let (taken, rest) =
            std::mem::take(&mut self.pending).into_iter().partition(|sampled| sampled.record.pid == pid);
        self.pending = rest;
        taken
    }

    /// True if samples of accesses are joined with blocks.
    pub fn joins(&self) -> bool {
        self.joins
    }

    /// True if samples of faults are too.
    pub fn joins_faults(&self) -> bool {
        self.joins && self.joins_faults
    }

    /// How many faults each sample of one stands for, if they are counted.
    pub fn faults_period(&self) -> Option<u64> {
        self.counts
    }

    /// Runs of touched pages.
    pub fn runs(&mut self) -> &mut FaultRuns {
        &mut self.runs
    }

    /// A process has begun under this pid, if that is known here.
    pub fn met(&mut self, process: u32, pid: Option<u32>, ns: u64) {
        let Some(pid) = pid else { return };
        self.processes.entry(pid).or_default().push(process);
        self.pids.insert(process, pid);
        // What began it is sampled before.
        self.read();
        self.images.met(pid, process, ns);
    }

    /// A process leaves, with these threads.
    pub fn retire(&mut self, process: u32, threads: &[ThreadRow]) {
        if let Some(pid) = self.pids.remove(&process)
            && let Some(under_pid) = self.processes.get_mut(&pid)
        {
            under_pid.retain(|other| *other != process);
            if under_pid.is_empty() {
                self.processes.remove(&pid);
            }
        }
        self.threads_left(threads);
        self.images.retire(process);
        // Samples do not say what was resident: none of them is to have a row.
        self.images.over_long_ago();
    }

    /// These threads leave. Another one may have got the kernel id of one of them since.
    pub fn threads_left(&mut self, threads: &[ThreadRow]) {
        for ThreadRow { process, tid, thread, .. } in threads {
            if self.threads.get(&(*process, *tid)) == Some(thread) {
                self.threads.remove(&(*process, *tid));
            }
        }
    }

    /// Processes that ran under a pid, the last one first.
    pub fn processes(&self, pid: u32) -> impl Iterator<Item = u32> {
        self.processes.get(&pid).into_iter().flatten().rev().copied()
    }

    /// A sample belongs to no process that is recorded. Before the first hello of one that is, the
    /// dynamic linker was at work.
    pub fn note_stranger(&mut self, pid: u32) {
        self.strangers += u64::from(self.joins && !self.processes.contains_key(&pid));
    }

    /// A thread has got a ring.
    pub fn note_thread(&mut self, process: u32, tid: u32, thread: u32) {
        self.threads.insert((process, tid), thread);
    }

    /// The index of a thread that has a ring.
    pub fn thread(&self, process: u32, tid: u32) -> Option<u32> {
        self.threads.get(&(process, tid)).copied()
    }

    /// A row with what was counted of its process.
    pub fn complete(&self, row: ProcessRow) -> ProcessRow {
        let image = self.images.of(row.process).filter(|_| self.counts.is_some());
        ProcessRow { page_faults: row.page_faults.or(image.map(|image| image.faults)), ..row }
    }
}

/// Whether page faults can be counted without BPF, in words: how, or why not.
pub fn can_count_faults() -> Result<&'static str, Error> {
    Ok(match Sampler::open(&Event::page_faults(FAULTS_PERIOD))?.user_only {
        true => "those of programs; the kernel's own on their behalf are left out (perf_event_paranoid)",
        false => "all",
    })
}

/// The events that sample memory accesses here.
pub fn can_sample_accesses() -> Result<String, Error> {
    Samples::default().open_hardware()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ns: u64, pid: u32) -> Record {
        Record { ns, pid, tid: pid, what: What::Sample { address: 4096, memory: None } }
    }

    #[test]
    fn faults_are_counted_by_process_as_many_as_each_sample_stands_for() {
        let mut samples = Samples { counts: Some(64), ..Samples::default() };
        (0..3).for_each(|ns| samples.count(&sample(ns, 7)));
        samples.met(2, Some(7), 1);
        let row = |process| samples.complete(ProcessRow { process, ..ProcessRow::default() });
        assert_eq!((row(2).page_faults, row(3).page_faults), (Some(3 * 64), None));
        assert_eq!(samples.processes(7).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn what_a_process_touched_last_is_taken_before_it_ends() {
        let mut samples = Samples::default();
        samples.met(3, Some(7), 1);
        let pending = [7, 8, 7].map(|pid| Sampled { ring: 0, record: sample(2, pid) });
        samples.pending.extend(pending);
        assert_eq!((samples.take_of(3).len(), samples.take_of(4).len()), (2, 0));
        assert_eq!(samples.pending.iter().map(|sampled| sampled.record.pid).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn samples_of_other_programs_are_noted() {
        let mut samples = Samples { joins: true, ..Samples::default() };
        samples.met(0, Some(7), 1);
        samples.note_stranger(7);
        assert_eq!(samples.note(), None);
        samples.note_stranger(8);
        assert!(samples.note().is_some_and(|note| note.starts_with("1 samples came from programs")));
    }
}
