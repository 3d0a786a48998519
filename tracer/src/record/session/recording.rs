//! A recording under way.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use memtrace_trace::weights::SiteWeights;
use memtrace_trace::{Meta, TraceWriter};
use memtrace_wire::layout::{FIRST, Recorder};

use super::interpreters::Unread;
use super::metadata;
use super::options::{Options, Wait};
use super::outcome::Failure;
use super::recorder_text as text;
use super::run::GRACE;
use super::sampling::Sampling;
use super::timing::TableTimer;
use crate::record::fold::{Fold, Placements, Setup, WholeSpan};
use crate::record::kernel::{Loading, Source};
use crate::record::launch::{self, Ending};
use crate::record::live::{Live, MemoryLimit, PredictionOptions, Recording};
use crate::record::procfs::{environment, resident};
use crate::record::samples::{Accesses, Samples};
use crate::record::state::garbage::Collecting;
use crate::record::transport::clock::Clock;
use crate::record::transport::drain::Drain;
use crate::record::transport::futex;
use crate::record::transport::listener::Listener;
use crate::record::transport::placing::PlacedImages;
use crate::record::transport::segments::Segments;
use crate::record::transport::settings::{self, Sealed};

/// How long the drain sleeps when there was nothing to read; a writer whose ring fills wakes it.
const NAP: Duration = Duration::from_millis(5);
/// The same while a thread waits for the request to collect garbage, which grows by megabytes a
/// millisecond.
const SHORT_NAP: Duration = Duration::from_millis(1);
/// Words that are worth another round at once: a thirty-second of a ring.
const LITTLE: usize = FIRST.ring_words / 32;

/// The operators that a model has laws of.
fn operators_of(prediction: &PredictionOptions) -> Vec<String> {
    prediction.model.laws.iter().map(|law| law.key.operator.clone()).collect()
}

/// A recording under way.
pub struct Session {
    pub(super) meta: Meta,
    pub(super) fold: Fold,
    pub(super) drain: Drain,
    /// What probes see of this recording.
    pub(super) recorder: &'static Recorder,
    pub(super) listener: Listener,
    /// Python functions that are to be recorded as operators.
    pub(super) operators: Vec<String>,
    /// Operators whose peaks are to be predicted.
    pub(super) predicted: Vec<String>,
    /// The trace.
    directory: PathBuf,
    live: Live,
    pub(super) limit: MemoryLimit,
    pub(super) sampling: Sampling,
    tables: TableTimer,
    /// memtrace's own largest resident size when the command was started.
    pub(super) own_peak: u64,
    wait: Wait,
    /// Interpreters of processes that have left.
    pub(super) unread: Unread,
    /// Children that outlived the command and its grace.
    pub(super) still_running: usize,
}

impl Session {
    /// Makes the trace and all that recorded processes connect to.
    pub fn open(options: &Options) -> Result<Session, Failure> {
        let mut out = TraceWriter::create(&options.output).map_err(Failure::recording)?;
        if let Some(bytes) = options.max_bytes {
            out.limit(bytes);
        }
        let clock = Clock::start(Clock::counter_is_steady());
        let gc = options.gc.map(Collecting::name);
        let watched =
            text::Watched { operators: &options.operators, automatic: options.automatic.as_deref(), gc };
        let (counts, placing) = (clock.counts(), options.placing.as_ref());
        let Sealed { descriptor, recorder } =
            settings::seal(counts, options.stacks.sampling(), &text::python(&watched), placing)
                .map_err(Failure::recording)?;
        let (listener, connections) = Listener::open(&options.output, descriptor, PlacedImages::of(placing))
            .map_err(Failure::recording)?;
        let meta = metadata::first(options, &clock);
        let prediction = options.prediction.as_ref();
        let fold = Fold::new(Setup {
            clock,
            out,
            arrivals: connections.arrivals,
            token: listener.token().to_string(),
            begun: meta.start_unix_ns / 1_000_000_000,
            weights: SiteWeights::of(&meta),
            keep: options.keep,
            whole: options.span.clone().map(|(name, input)| WholeSpan { name, input }),
            watches_garbage: options.gc.is_some(),
            placements: Placements::of(placing),
            model: prediction.map(|prediction| prediction.model.clone()),
        });
        Ok(Session {
            meta,
            fold,
            drain: Drain::new(Segments::new(connections.segments)),
            recorder,
            listener,
            operators: options.operators.clone(),
            predicted: prediction.map(operators_of).unwrap_or_default(),
            directory: options.output.canonicalize().unwrap_or_else(|_| options.output.clone()),
            live: Live::new(connections.clients),
            limit: prediction.map(MemoryLimit::new).unwrap_or_default(),
            sampling: Sampling::start(),
            tables: TableTimer::start(),
            own_peak: resident::resident(std::process::id()).map_or(0, |resident| resident.peak),
            wait: options.wait,
            unread: Unread::default(),
            still_running: 0,
        })
    }

    /// Where the trace is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The sockets that probes connect to.
    pub fn listener(&self) -> &Listener {
        &self.listener
    }

    /// The word that the drain sleeps on.
    pub fn sleeping(&self) -> &'static AtomicU32 {
        &self.recorder.sleeping
    }

    /// Notes in the trace how something was recorded.
    pub fn note_recorded(&mut self, what: &str, how: &str) {
        self.meta.recorded.insert(what.into(), how.into());
    }

    /// Waits for the kernel side to be loaded, and notes in the trace which one it is.
    pub fn use_kernel(&mut self, requested: Source, loading: Loading) -> Result<(), Failure> {
        let mut kernel = match loading.wait() {
            Some(Ok(kernel)) => kernel,
            Some(Err(error)) if requested == Source::Ebpf => return Err(Failure::recording(error)),
            Some(Err(error)) => {
                self.note_recorded("kernel_why", &error.to_string());
                return Ok(());
            }
            None => return Ok(()),
        };
        if let Some(programs) = kernel.programs() {
            programs.watch_children_of(std::process::id()).map_err(Failure::recording)?;
        }
        self.note_recorded("kernel", "ebpf");
        self.fold.set_kernel(kernel);
        Ok(())
    }

    /// Opens perf events for the command, which this thread is about to start.
    pub fn sample_events(&mut self, requested: Accesses) {
        let (samples, recorded) = Samples::open(requested, self.fold.sees_faults());
        self.meta.recorded.extend(recorded);
        self.fold.set_samples(samples);
    }

    /// The command has been started: no other child of ours is to be watched.
    pub fn started(&mut self, child: i32) {
        let name = self.meta.command.first().map(String::as_str).unwrap_or_default();
        self.fold.set_root(child as u32, name);
        if let Some(programs) = self.fold.kernel_programs() {
            programs.untrack(std::process::id());
        }
        // While the command is being loaded: what comes to nothing later (a full disk) leaves a
        // readable trace.
        self.write_tables(false);
    }

    /// Drains until the command has ended, and its children too or their grace is over.
    pub fn follow(&mut self, child: i32) -> Ending {
        let mut ending = None;
        let sleeping = self.sleeping();
        loop {
            // Asleep from here on: after a signal, or if a ring fills, the nap is not taken.
            sleeping.store(1, Ordering::SeqCst);
            let ended = ending.is_none().then(|| launch::ending(child)).flatten();
            // Where it was alone the answer is there without reading all processes.
            ending = ending.or_else(|| Some((ended?, Instant::now(), environment::is_last(child))));
            let read = self.round(false);
            if let Some((ending, since, was_alone)) = ending {
                let others = || !was_alone && environment::others_alive(self.listener.token());
                let is_last = !self.drain.has_writers() && !others();
                if is_last || self.wait == Wait::Main && since.elapsed() > GRACE {
                    return ending;
                }
            }
            // Few words are not worth a round of their own; after the command's end every round
            // counts.
            if read == 0 || read < LITTLE && ending.is_none() {
                let collects = self.drain.collectors().next().is_some();
                self.nap(if collects { SHORT_NAP } else { NAP });
            }
            sleeping.store(0, Ordering::Relaxed);
        }
    }

    /// Sleeps a little, unless a writer or a signal handler wakes it.
    pub fn rest(&self) {
        let sleeping = self.sleeping();
        sleeping.store(1, Ordering::SeqCst);
        self.nap(NAP);
        sleeping.store(0, Ordering::Relaxed);
    }

    /// Until a writer wakes this thread, a signal handler clears the word, or the time is over.
    fn nap(&self, most: Duration) {
        if !self.drain.rung() {
            futex::wait(self.sleeping(), 1, most);
        }
    }

    /// Reads the rings once, folds what can be ordered, and does what is due. Returns the number of
    /// words read.
    pub fn round(&mut self, last: bool) -> usize {
        let safe = self.fold.begin_round();
        self.drain.set_step(self.fold.clock().step());
        // A process whose thread claimed a ring meanwhile has said hello before: the fold takes
        // that in first.
        self.drain.meet_writers(&mut self.fold);
        for image in self.fold.take_replaced() {
            let fold = &self.fold;
            self.drain.reap_if(|writer| fold.process_of(writer) == image);
        }
        let (read, horizon) = self.drain.round(safe, &mut self.fold, last);
        // Not beyond what the probe's events were passed on to: some thread may be in the middle of
        // one.
        self.fold.advance(horizon.min(safe));
        self.sample_ending();
        self.end_silent();
        for (writer, word) in self.drain.collectors() {
            self.fold.request_collection(writer, word, safe);
        }
        self.sample();
        self.retire();
        if self.tables.is_due(self.fold.totals().peak_live()) {
            self.write_tables(false);
        }
        read
    }

    /// Threads and processes that ended long ago leave memory.
    fn retire(&mut self) {
        self.fold.retire_threads();
        self.fold.add_unmet_of_old();
        while let Some(index) = self.fold.next_retired() {
            self.note_interpreter(index);
            self.fold.retire(index);
        }
    }

    /// Writes every table but `allocations` anew: a trace whose tracer is killed has recent ones.
    pub fn write_tables(&mut self, last: bool) {
        self.tables.begin(self.fold.clock().now_ns());
        let processes = self.fold.process_rows();
        self.sum_up(&processes);
        self.fold.write_tables(&processes, &self.meta, last);
        self.tables.end(self.fold.totals().peak_live());
    }

    /// Does something with the live view.
    pub(super) fn with_live<R>(&mut self, work: impl FnOnce(&mut Live, &Recording) -> R) -> R {
        let Session { meta, fold, directory, live, limit, .. } = self;
        work(live, &Recording { directory, meta, fold, limit })
    }

    /// Taken apart, to close the trace and to send the last figures.
    pub(super) fn into_parts(self) -> (Fold, Meta, Live) {
        (self.fold, self.meta, self.live)
    }
}
