//! One recording from start to end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memtrace_trace::rows::{ModuleRow, ProcessRow, TimelineRow};
use memtrace_trace::{Lost, Meta, Peak, Totals, TraceWriter};
use memtrace_wire::layout::SLOTS;

use super::clock::Clock;
use super::drain::{Drain, Sink};
use super::fold::{Fold, WholeSpan};
use super::handshake::Doorman;
use super::launch::{self, Ending};
use super::modules;
use super::sample::{self, Pagemap};
use super::segment::Segment;
use super::text;

/// What to record.
pub struct Options {
    /// Trace directory.
    pub output: PathBuf,
    /// Command and arguments.
    pub command: Vec<OsString>,
    /// Python functions that are operators, `module:function`.
    pub operators: Vec<String>,
    /// The whole command as one span.
    pub span: Option<(String, memtrace_trace::rows::ArrayInfo)>,
}

/// A recording that came to an end.
pub struct Outcome {
    /// What a shell would give as the command's exit status.
    pub code: i32,
}

/// Why there is no (whole) recording: an exit status and one sentence.
pub struct Failure {
    /// Exit status of memtrace.
    pub code: i32,
    /// The sentence.
    pub message: String,
}

impl Failure {
    fn recording(error: impl std::fmt::Display) -> Failure {
        Failure { code: 125, message: format!("{error:#}") }
    }
}

/// How long the drain sleeps when there was nothing to read; a writer whose ring fills wakes it.
const NAP: Duration = Duration::from_millis(5);
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
const TABLES_EVERY: Duration = Duration::from_secs(5);
/// Children that outlive the command are waited for so long.
const GRACE: Duration = Duration::from_secs(2);

/// Records a command. The trace is complete on disk when this returns `Ok`.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let probe = launch::find_probe().map_err(Failure::recording)?;
    let existed = options.output.exists();
    let out = create_output(&options.output)?;
    let clock = Clock::start(Clock::tsc_is_invariant());
    let segment = Segment::create(clock.name() == "tsc").map_err(Failure::recording)?;
    // Probes may still look at it after this function returned, and signal handlers do.
    let segment: &'static Segment = Box::leak(Box::new(segment));
    segment.set_text(&text::python(&options.operators)).map_err(Failure::recording)?;
    let descriptor = segment.duplicate().map_err(Failure::recording)?;
    let doorman = Doorman::open(&options.output, descriptor).map_err(Failure::recording)?;
    let whole = options.span.clone().map(|(name, input)| WholeSpan { name, input });
    let mut session = Session {
        meta: first_meta(options, &clock),
        fold: Fold::new(clock, out, whole),
        drain: Drain::new(segment),
        segment,
        doorman,
        operators: options.operators.clone(),
        passed_over: false,
        own_peak: sample::resident(std::process::id()).map_or(0, |resident| resident.peak),
        modules: Vec::new(),
        last_sample: Instant::now(),
        last_tables: Instant::now(),
        measure_after: Instant::now(),
    };
    session.write_tables(false);
    let variables = [
        (memtrace_wire::handshake::SOCKET_VARIABLE, session.doorman.sockets.as_str()),
        (memtrace_wire::handshake::TOKEN_VARIABLE, session.doorman.token.as_str()),
    ];
    let child = launch::start(&options.command, &probe, &variables, &segment.header().sleeping);
    let child = child.map_err(|not_started| {
        // Nothing ran, so there is nothing to keep; a directory that was there stays.
        if !existed {
            let _ = std::fs::remove_dir_all(&options.output);
        }
        Failure { code: not_started.code, message: not_started.message }
    })?;
    session.fold.root = child as u32;
    session.fold.sites.token.clone_from(&session.doorman.token);
    let ending = session.follow(child);
    session.close(ending)
}

fn create_output(output: &std::path::Path) -> Result<TraceWriter, Failure> {
    if std::fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure {
            code: 125,
            message: format!(
                "{} exists and is not empty; choose another directory with -o",
                output.display()
            ),
        });
    }
    let out = TraceWriter::create(output).map_err(Failure::recording)?;
    // A directory that was there may have been open to others; the socket and the trace are not for them.
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(output, private).map_err(Failure::recording)?;
    Ok(out)
}

fn first_meta(options: &Options, clock: &Clock) -> Meta {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let recorded = [
        ("stacks", "blocks of 64 KiB and more"),
        ("kernel", "proc"),
        ("gc", "observe off"),
        ("children", "yes"),
    ];
    Meta {
        memtrace: env!("CARGO_PKG_VERSION").into(),
        command: options.command.iter().map(|argument| argument.display().to_string()).collect(),
        cwd: std::env::current_dir().unwrap_or_default().display().to_string(),
        host: read("/proc/sys/kernel/hostname"),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        start_unix_ns: now.as_nanos() as i64 - clock.now_ns(),
        clock: clock.name().into(),
        recorded: recorded
            .map(|(what, how)| (what.to_string(), how.to_string()))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        ..Default::default()
    }
}

struct Session {
    meta: Meta,
    fold: Fold,
    drain: Drain<'static>,
    segment: &'static Segment,
    doorman: Doorman,
    operators: Vec<String>,
    /// Some mapping was too large to look into.
    passed_over: bool,
    /// memtrace's own largest resident size when the command was started.
    own_peak: u64,
    /// By (pid, first stamp) of the process image; its index is known once it has written an event.
    modules: Vec<((u32, u64), ModuleRow)>,
    last_sample: Instant,
    last_tables: Instant,
    measure_after: Instant,
}

impl Session {
    /// Drains until the command has ended, and its children too or their grace is over.
    fn follow(&mut self, child: i32) -> Ending {
        let mut ending = None;
        loop {
            // Asleep from here on: a signal or a filling ring sets it back, and the nap is not taken.
            let header = self.segment.header();
            header.sleeping.store(1, Ordering::SeqCst);
            let ended = ending.is_none().then(|| launch::ending(child)).flatten();
            ending = ending.or(ended.map(|ending| (ending, Instant::now())));
            let read = self.round(false);
            if let Some((ending, since)) = ending {
                let alone = !self.drain.has_writers() && !launch::others_alive(&self.doorman.token);
                if alone || since.elapsed() > GRACE {
                    return ending;
                }
            }
            if read == 0 {
                nap(&header.sleeping);
            }
            header.sleeping.store(0, Ordering::Relaxed);
        }
    }

    fn round(&mut self, last: bool) -> usize {
        self.fold.clock.update();
        let safe = self.fold.clock.stamp().saturating_sub(self.fold.clock.margin());
        self.welcome();
        self.drain.meet_writers(&mut self.fold);
        // Who claimed a ring meanwhile said hello before: its events must find its modules known.
        self.welcome();
        let read = self.drain.round(safe, &mut self.fold, last);
        self.sample();
        if self.last_tables.elapsed() > TABLES_EVERY {
            self.write_tables(false);
        }
        read
    }

    /// Learns what processes that said hello are.
    fn welcome(&mut self) {
        for arrival in self.doorman.arrivals.try_iter() {
            let image = (arrival.pid, arrival.image);
            let modules = modules::parse(&arrival.maps);
            self.fold.sites.arrived(image, &modules);
            self.modules.extend(modules.into_iter().map(|module| (image, module)));
            self.fold.name(image, arrival.command);
        }
    }

    /// Resident sizes and touched pages, at regular times.
    fn sample(&mut self) {
        if self.last_sample.elapsed() < SAMPLE_EVERY {
            return;
        }
        self.last_sample = Instant::now();
        let measure = Instant::now() >= self.measure_after;
        for (thread, usage) in self.drain.usage() {
            let process = self.fold.threads[thread as usize].process;
            self.fold.processes[process as usize].note_ring(usage.slot, usage.touched_bytes);
        }
        for index in 0..self.fold.processes.len() as u32 {
            self.sample_process(index, measure);
        }
        // Walking page tables of large mappings takes time: at most a twentieth of it.
        self.measure_after = Instant::now() + self.last_sample.elapsed() * 20;
    }

    fn sample_process(&mut self, index: u32, measure: bool) {
        let stamp = self.fold.clock.stamp();
        let token = &self.doorman.token;
        let process = &mut self.fold.processes[index as usize];
        let pid = process.row.pid;
        if process.end.is_some() || !*process.visible.get_or_insert_with(|| launch::is_ours(pid, token)) {
            return;
        }
        let (has_memory, writers) = (process.mappings.mapped_bytes() > 0, process.writers);
        let Some(resident) = sample::resident(pid) else {
            if writers == 0 {
                self.fold.end_process(index, stamp);
            }
            return;
        };
        let probe = process.row.probe_bytes;
        let peak = &mut process.row.peak_resident_bytes;
        *peak = (*peak).max(resident.peak.saturating_sub(probe));
        if measure
            && has_memory
            && let Some(mut pagemap) = Pagemap::open(pid)
        {
            self.fold.measure(index, stamp, |piece| pagemap.touched(piece));
            self.passed_over |= pagemap.passed_over;
        }
        let now = resident.now.saturating_sub(probe);
        let threads = self.fold.threads.iter().filter(|thread| thread.process == index);
        self.fold.spans.resident(index, threads.map(|thread| thread.thread), now);
        self.fold.sample(index, stamp, Some(now));
    }

    fn close(mut self, ending: Ending) -> Result<Outcome, Failure> {
        let still_running = self.still_running();
        self.segment.header().detached.store(1, Ordering::SeqCst);
        while self.round(true) > 0 {}
        let stamp = self.fold.clock.stamp();
        for (thread, usage) in self.drain.usage().collect::<Vec<_>>() {
            self.fold.writer_gone(thread, usage);
        }
        let root = self.fold.root;
        let last_image = self.fold.processes.iter().rposition(|process| process.row.pid == root);
        let alone = self.fold.processes.len() == 1;
        if let Some(process) = last_image.map(|index| &mut self.fold.processes[index]) {
            process.row.exit = Some(ending.code);
            // ru_maxrss also counts what memtrace itself held when it forked, and children of the command.
            if alone && ending.max_resident_bytes > self.own_peak {
                let peak = ending.max_resident_bytes.saturating_sub(process.row.probe_bytes);
                process.row.peak_resident_bytes = process.row.peak_resident_bytes.max(peak);
            }
        }
        for index in 0..self.fold.processes.len() as u32 {
            self.fold.end_process(index, stamp);
            self.write_peak(index);
        }
        if still_running > 0 {
            self.meta.notes.push(format!(
                "{still_running} processes outlived the command by more than {} s; what they did after that was not recorded.",
                GRACE.as_secs()
            ));
        }
        let without_slot = self.segment.header().lost_without_slot.load(Ordering::Relaxed);
        if without_slot > 0 {
            self.meta.notes.push(format!(
                "More than {SLOTS} threads were at work at one time: {without_slot} events were lost, so peaks are lower bounds."
            ));
        }
        if self.passed_over {
            self.meta.notes.push(format!(
                "Mappings of more than {} GiB were not looked into: what is touched of them is not in live bytes.",
                sample::LOOK_MAX >> 30
            ));
        }
        if self.fold.spans.malformed > 0 {
            self.meta
                .notes
                .push(format!("{} descriptions of spans could not be read.", self.fold.spans.malformed));
        }
        let waited = self.fold.waited_ns / 1_000_000;
        if waited > 0 {
            self.meta.notes.push(format!("The program waited {waited} ms for the tracer."));
        }
        for operator in self.fold.spans.missing(&self.operators) {
            self.meta
                .notes
                .push(format!("{operator} was never called, or is not a function that can be watched."));
        }
        if self.fold.processes.is_empty() {
            self.meta.notes.push(
                "No event was recorded: the command is statically linked, setuid, or allocates nothing through the C library.".into(),
            );
        }
        self.meta.exit = Some(ending.code);
        self.meta.signal = ending.signal;
        self.write_tables(true);
        if let Some(error) = self.fold.failure.take() {
            return Err(Failure::recording(error));
        }
        let (fold, meta) = (self.fold, self.meta);
        fold.into_writer().finish(&meta).map_err(Failure::recording)?;
        Ok(Outcome { code: ending.code })
    }

    fn still_running(&self) -> usize {
        self.fold.processes.iter().filter(|process| process.end.is_none() && process.writers > 0).count()
    }

    fn write_peak(&mut self, index: u32) {
        let process = &self.fold.processes[index as usize];
        let (stamp, heap_bytes, mapped_bytes) = process.at_peak;
        let row = TimelineRow {
            process: index,
            time_ns: self.fold.clock.ns(stamp),
            reason: "peak".into(),
            live_bytes: process.row.peak_live_bytes,
            heap_bytes,
            mapped_bytes,
            resident_bytes: None,
        };
        self.fold.write(|out| out.timeline(row));
    }

    /// Writes every table but `allocations` anew: a trace whose tracer is killed has recent ones.
    fn write_tables(&mut self, last: bool) {
        self.last_tables = Instant::now();
        let clock = &self.fold.clock;
        let processes: Vec<ProcessRow> = self
            .fold
            .processes
            .iter()
            .map(|process| ProcessRow {
                start_ns: clock.ns(process.start),
                end_ns: process.end.map(|stamp| clock.ns(stamp)),
                peak_ns: clock.ns(process.at_peak.0),
                ..process.row.clone()
            })
            .collect();
        self.sum_up(&processes);
        let spans = self.fold.spans.rows(|stamp| self.fold.clock.ns(stamp));
        let threads = self.fold.threads.clone();
        let at_start = self.modules.iter().filter_map(|(image, module)| {
            Some(ModuleRow { process: self.fold.index_of(*image)?, ..module.clone() })
        });
        let modules: Vec<ModuleRow> = at_start.chain(self.fold.sites.opened.iter().cloned()).collect();
        let (sites, frames) = (self.fold.sites.rows(), self.fold.sites.frames());
        let meta = self.meta.clone();
        self.fold.write(|out| {
            out.processes(&processes)?;
            out.threads(&threads)?;
            out.spans(&spans)?;
            out.modules(&modules)?;
            out.sites(&sites)?;
            out.frames(&frames)?;
            if last { Ok(()) } else { out.close_part().and_then(|()| out.meta(&meta)) }
        });
    }

    fn sum_up(&mut self, processes: &[ProcessRow]) {
        let sum = |field: fn(&ProcessRow) -> u64| processes.iter().map(field).sum::<u64>();
        let total = &self.fold.total;
        let without_slot = self.segment.header().lost_without_slot.load(Ordering::Relaxed);
        self.meta.duration_ns = self.fold.clock.now_ns();
        self.meta.lost = Lost {
            events: sum(|row| row.lost_events) + without_slot,
            late_events: self.drain.late,
            unseen_releases: sum(|row| row.unseen_releases),
        };
        self.meta.peak = Peak {
            live_bytes: total.peak_live,
            heap_bytes: total.peak_heap,
            resident_bytes: processes.iter().map(|row| row.peak_resident_bytes).max().unwrap_or(0),
            peak_ns: if total.peak_live > 0 { self.fold.clock.ns(total.peak) } else { 0 },
        };
        self.meta.totals = Totals {
            allocations: sum(|row| row.allocations),
            requested_bytes: sum(|row| row.requested_bytes),
        };
    }
}

/// Sleeps until a writer or a signal handler clears the word, or the nap is over (futex(2)).
fn nap(sleeping: &std::sync::atomic::AtomicU32) {
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as i64 };
    // SAFETY: the word and the timeout are valid; a shared futex, because wakers are other processes.
    unsafe { libc::syscall(libc::SYS_futex, sleeping.as_ptr(), libc::FUTEX_WAIT, 1, &raw const timeout) };
}
