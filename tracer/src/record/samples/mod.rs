//! What perf events sample of the recorded processes: page faults where no BPF program tells of them, and memory accesses
//! if they are asked for (`--accesses`), joined with what was live when they happened.

mod accesses;
mod faults;
mod reader;

use std::collections::VecDeque;
use std::path::Path;

use memtrace_perf::{Error, Event, Missing, Record, Sampler, What, memory_events};
use memtrace_trace::rows::ProcessRow;
use rustc_hash::FxHashMap;

use self::faults::Touched;
use self::reader::{Reader, Told};
use super::fold::Fold;
use super::kernel::{Image, Images};

/// Which memory accesses are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Accesses {
    /// None.
    Off,
    /// Loads and stores, by the processor (PEBS, IBS), where it can.
    Hardware,
    /// The first touch of each page alone, by its fault: everywhere, at the cost of a third of a fault.
    Faults,
}

impl Accesses {
    fn name(self) -> &'static str {
        match self {
            Accesses::Off => "off",
            Accesses::Hardware => "hardware",
            Accesses::Faults => "faults",
        }
    }
}

/// One of so many faults is sampled if they are only counted: that costs 5 to 6 % of the time of first touches (each of
/// 16: 11 %, each: 34 % and more).
const FAULTS_PERIOD: u64 = 64;

/// Where units say what they can sample.
const UNITS: &str = "/sys/bus/event_source/devices";

/// Events at work, and what they have told that is not folded yet.
#[derive(Default)]
pub struct Samples {
    readers: Vec<Reader>,
    /// In the order of time.
    pending: VecDeque<Told>,
    /// Samples are joined with blocks and get rows.
    joins: bool,
    /// Those of faults too.
    joins_faults: bool,
    /// Faults are counted; each sample stands for so many.
    counts: Option<u64>,
    /// Processes as faults tell of them.
    images: Images,
    /// Indices into `processes` by pid, in the order in which they began.
    processes: FxHashMap<u32, Vec<u32>>,
    /// Indices into `threads`, by process and kernel id.
    threads: FxHashMap<(u32, u32), u32>,
    /// The page and the stamp of the last sample of a thread in a ring.
    last_pages: FxHashMap<(u32, u32), (u64, u64)>,
    /// Pages that samples in a row tell of, not folded yet.
    touched: Option<Touched>,
    /// Samples of programs that nobody records.
    strangers: u64,
}

/// What is said of it in `meta.recorded`.
pub type Recorded = Vec<(String, String)>;

impl Samples {
    /// Opens events for the programs that this thread will start: faults to be counted if nothing else `sees_faults`.
    pub fn open(asked: Accesses, sees_faults: bool) -> (Samples, Recorded) {
        let mut samples = Samples::default();
        let mut recorded = vec![("accesses".into(), asked.name().into())];
        let say = |recorded: &mut Recorded, what: &str, why: &Error| {
            recorded.push((format!("{what}_why"), why.to_string()));
        };
        if asked == Accesses::Hardware {
            match samples.open_hardware() {
                Ok(names) => recorded.push(("accesses_events".into(), names)),
                Err(error) => say(&mut recorded, "accesses", &error),
            }
        }
        if asked != Accesses::Faults && sees_faults {
            return (samples, recorded);
        }
        let period = if asked == Accesses::Faults { 1 } else { FAULTS_PERIOD };
        match samples.add(&Event::page_faults(period)) {
            Ok(user_only) => {
                samples.joins_faults = asked == Accesses::Faults;
                samples.joins |= samples.joins_faults;
                samples.counts = (!sees_faults).then_some(period);
                if asked == Accesses::Faults {
                    recorded.push(("accesses_events".into(), "page-faults".into()));
                }
                if !sees_faults {
                    let how = if user_only { "perf_user" } else { "perf" };
                    recorded.push(("page_faults".into(), how.into()));
                    recorded.push(("page_faults_period".into(), period.to_string()));
                }
            }
            Err(error) => {
                if asked == Accesses::Faults {
                    say(&mut recorded, "accesses", &error);
                }
                if !sees_faults {
                    recorded.push(("page_faults".into(), "off".into()));
                    say(&mut recorded, "page_faults", &error);
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
        // One kind of access is better than none: what matters is the first that works.
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

    /// What could not be told.
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
        let said = what.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let said: Vec<String> = said.collect();
        let strangers = || match self.strangers {
            0 => None,
            count => {
                Some(format!("{count} samples came from programs that are not recorded, and are left out."))
            }
        };
        let bounds =
            (!said.is_empty()).then(|| format!("{}: counts of them are lower bounds.", said.join("; ")));
        let sentences: Vec<String> = bounds.into_iter().chain(strangers()).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// Who is who, and how many faults each had.
    fn count(&mut self, record: &Record) {
        let counted = match (record.what, self.counts) {
            (What::Sample { memory: None, .. }, Some(period)) => period,
            (What::Fork { .. } | What::Exec, _) => 0,
            _ => return,
        };
        let begins = counted == 0 || self.images.latest(record.pid).is_none();
        if begins {
            let image = Image { pid: record.pid, begin_ns: record.ns, ..Image::default() };
            self.images.begin(image);
        }
        if let Some(image) = self.images.latest(record.pid) {
            image.faults += counted;
        }
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

impl Fold {
    /// Takes in what was sampled since.
    pub fn read_samples(&mut self) {
        let samples = &mut self.samples;
        let mut told = Vec::new();
        samples.readers.iter().for_each(|reader| reader.take(&mut told));
        if told.is_empty() {
            return;
        }
        // Each processor has a ring of its own.
        told.sort_by_key(|told| told.record.ns);
        told.iter().for_each(|told| samples.count(&told.record));
        let late = samples.pending.back().is_some_and(|last| last.record.ns > told[0].record.ns);
        samples.pending.extend(told.iter().filter(|told| matches!(told.record.what, What::Sample { .. })));
        if late {
            samples.pending.make_contiguous().sort_by_key(|told| told.record.ns);
        }
    }

    /// The stamp of the next sample that is to be joined with what is live then, up to the horizon.
    pub fn next_sample(&self, horizon: u64) -> Option<u64> {
        let first = self.samples.pending.front().filter(|_| self.samples.joins)?;
        // A little later: the sample itself is to be folded then, however times are rounded.
        Some(self.clock.stamp_of_monotonic(first.record.ns + 100)).filter(|stamp| *stamp <= horizon)
    }

    /// Folds what was sampled up to this stamp.
    pub fn samples_until(&mut self, stamp: u64) {
        if self.samples.pending.is_empty() {
            return;
        }
        let until = self.clock.ns(stamp);
        while let Some(told) = self.samples.pending.front()
            && self.clock.of_monotonic(told.record.ns) <= until
            && let Some(told) = self.samples.pending.pop_front()
        {
            self.sampled(told);
        }
        self.fold_touched();
    }

    fn sampled(&mut self, Told { ring, record }: Told) {
        let What::Sample { address, memory } = record.what else { return };
        let stamp = self.clock.stamp_of_monotonic(record.ns);
        let Some(process) = self.process_at(record.pid, stamp) else {
            // Before the first hello of a process that is recorded, the dynamic linker was at work.
            let known = self.samples.processes.contains_key(&record.pid);
            self.samples.strangers += u64::from(self.samples.joins && !known);
            return;
        };
        if let (None, Some(period)) = (memory, self.samples.counts) {
            self.touched_by_faults(process, (ring, record.tid), address, period, stamp);
        }
        if self.samples.joins && (memory.is_some() || self.samples.joins_faults) {
            self.accessed(process, &record, address, memory);
        }
    }

    /// A process has said hello, or was forked by one that had; its pid here, if that is known.
    pub fn samples_met(&mut self, process: u32, pid: Option<u32>, stamp: u64) {
        if self.samples.joins {
            self.processes[process as usize].blocks.keep_order();
        }
        let Some(pid) = pid else { return };
        self.samples.processes.entry(pid).or_default().push(process);
        // What began it is told before.
        self.read_samples();
        self.samples.images.met(pid, process, self.clock.to_monotonic(stamp));
    }

    /// A thread has got a ring.
    pub fn samples_thread(&mut self, process: u32, tid: u32, thread: u32) {
        self.samples.threads.insert((process, tid), thread);
    }

    /// The process that ran under a pid at that time.
    fn process_at(&self, pid: u32, stamp: u64) -> Option<u32> {
        let mut processes = self.samples.processes.get(&pid)?.iter().rev().copied();
        processes.find(|index| {
            let process = &self.processes[*index as usize];
            process.start <= stamp && process.end.is_none_or(|end| stamp <= end)
        })
    }

    /// A row with what was counted of its process.
    pub fn with_samples(&self, row: ProcessRow) -> ProcessRow {
        let image = self.samples.images.of(row.process).filter(|_| self.samples.counts.is_some());
        ProcessRow { page_faults: row.page_faults.or(image.map(|image| image.faults)), ..row }
    }
}
