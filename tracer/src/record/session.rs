//! One recording from start to end.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memtrace_ebpf::Parts;
use memtrace_trace::weights::{self, SiteWeights};
use memtrace_trace::{Meta, Rows, TraceWriter};
use memtrace_wire::layout::RING_WORDS;
use memtrace_wire::sampling::Sampling;

use super::clock::Clock;
use super::drain::Drain;
use super::fold::{Fold, Folded, Images, WholeSpan};
use super::foresee::Limit;
use super::futex;
use super::garbage::Collecting;
use super::handshake::Doorman;
use super::kernel::{Kernel, Loading, Source};
use super::launch::{self, Ending};
use super::live::Live;
use super::options::{Options, Stacks, Wait};
use super::sample;
use super::samples::{Accesses, Samples};
use super::segment::Segment;
use super::text;

/// A recording that came to an end.
pub struct Outcome {
    /// What a shell would give as the command's exit status.
    pub code: i32,
}

/// Why there is no (whole) recording: an exit status and one sentence.
#[derive(Debug)]
pub struct Failure {
    /// Exit status of memtrace.
    pub code: i32,
    /// The sentence.
    pub message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    pub(super) fn recording(error: impl std::fmt::Display) -> Failure {
        Failure { code: 125, message: format!("{error:#}") }
    }
}

/// How long the drain sleeps when there was nothing to read; a writer whose ring fills wakes it.
const NAP: Duration = Duration::from_millis(5);
/// The same while a thread waits to be asked for a collection: garbage grows by megabytes a millisecond.
const SHORT_NAP: Duration = Duration::from_millis(1);
/// Words that are worth another round at once: a sixteenth of a ring.
const LITTLE: usize = RING_WORDS / 16;
/// Tables are written anew so often (in long runs after every thousandth of their length, or parts would become
/// countless), and at every new peak; whoever is killed together with the tracer leaves what
/// it held then.
pub(super) const TABLES_EVERY: Duration = Duration::from_secs(5);
const SNAPSHOT_APART: Duration = Duration::from_millis(200);
/// Children that outlive the command are waited for so long.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Records a command. The trace is complete on disk when this returns `Ok`.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let probe = launch::find_probe().map_err(Failure::recording)?;
    let (cuda, devices) = options.cuda.library();
    let calls = launch::program_of(&options.command[0]).is_some_and(|path| launch::takes_no_probe(&path));
    let loading = Loading::start(options.kernel, Parts { calls, running: false });
    let existed = options.output.exists();
    let mut session = Session::open(options)?;
    let unmade = |failure| {
        // Nothing ran, so there is nothing to keep; a directory that was there stays.
        if !existed {
            let _ = std::fs::remove_dir_all(&options.output);
        }
        failure
    };
    session.take_kernel(options.kernel, loading).map_err(unmade)?;
    session.sample_events(options.accesses);
    session.meta.recorded.insert("cuda".into(), devices.into());
    let mut variables = vec![
        (memtrace_wire::handshake::SOCKET_VARIABLE, session.doorman.sockets.as_str()),
        (memtrace_wire::handshake::TOKEN_VARIABLE, session.doorman.token.as_str()),
    ];
    if options.python_allocators {
        variables.push(("PYTHONMALLOC", "malloc"));
    }
    let libraries = [probe].into_iter().chain(cuda).collect::<Vec<_>>();
    let child = launch::start(&options.command, &libraries, &variables, &session.segment.header().sleeping)
        .map_err(|not_started| {
        unmade(Failure { code: not_started.code, message: not_started.message })
    })?;
    session.fold.root = child as u32;
    session.watch_no_more();
    // While the command is being loaded: what comes to nothing later (a full disk) leaves a readable trace.
    session.write_tables(false);
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
    let gc = options.gc.map_or("off", Collecting::name);
    let mut recorded = vec![
        ("stacks", options.stacks.name().to_string()),
        ("kernel", "proc".into()),
        ("gc", gc.into()),
        ("children", "yes".into()),
    ];
    if let Some(threads) = threads_asked_for() {
        recorded.push(("threads", threads.to_string()));
    }
    if options.stacks == Stacks::Auto {
        recorded.push((weights::EXACT_FROM, Sampling::AUTO.exact_from.to_string()));
        recorded.push((weights::SAMPLED_MEAN, Sampling::AUTO.mean_bytes.to_string()));
    }
    Meta {
        memtrace: env!("CARGO_PKG_VERSION").into(),
        command: options.command.iter().map(|argument| argument.display().to_string()).collect(),
        cwd: std::env::current_dir().unwrap_or_default().display().to_string(),
        host: read("/proc/sys/kernel/hostname"),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        start_unix_ns: now.as_nanos() as i64 - clock.now_ns(),
        clock: clock.name().into(),
        rows: Rows {
            aggregate: options.keep.none,
            min_size_bytes: options.keep.min_bytes,
            ..Rows::default()
        },
        recorded: recorded.into_iter().map(|(what, how)| (what.to_string(), how)).collect(),
        ..Default::default()
    }
}

/// How many threads numerical libraries are told to use by the environment: OpenMP's variable, which OpenBLAS and MKL
/// read too, or their own.
fn threads_asked_for() -> Option<u32> {
    let names = ["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"];
    names.iter().find_map(|name| std::env::var(name).ok()?.trim().parse().ok())
}

/// A recording under way.
pub(super) struct Session {
    pub(super) meta: Meta,
    pub(super) fold: Fold,
    pub(super) drain: Drain<'static>,
    pub(super) segment: &'static Segment,
    pub(super) doorman: Doorman,
    pub(super) operators: Vec<String>,
    /// The trace.
    pub(super) directory: PathBuf,
    /// Those who watch, and what they want to know.
    pub(super) live: Live,
    /// What processes may hold.
    pub(super) limit: Limit,
    /// Some mapping was too large to look into.
    pub(super) passed_over: bool,
    /// memtrace's own largest resident size when the command was started.
    pub(super) own_peak: u64,
    pub(super) wait: Wait,
    pub(super) last_sample: Instant,
    pub(super) last_tables: Instant,
    pub(super) tables_every: Duration,
    pub(super) measure_after: Instant,
    /// Children that outlived the command and its grace.
    pub(super) still_running: usize,
    /// When the live set may be written again: that takes a twentieth of the time at most.
    pub(super) snapshot_after: Instant,
    /// Peak of live bytes when it was last written.
    pub(super) snapshot_peak: u64,
}

impl Session {
    /// Makes the trace and all that recorded processes connect to.
    pub(super) fn open(options: &Options) -> Result<Session, Failure> {
        let mut out = create_output(&options.output)?;
        if let Some(bytes) = options.max_bytes {
            out.limit(bytes);
        }
        let clock = Clock::start(Clock::tsc_is_invariant());
        let segment = Segment::create(clock.name() == "tsc", options.stacks.sampling());
        // Probes may still look at it after this function returned, and signal handlers do.
        let segment: &'static Segment = Box::leak(Box::new(segment.map_err(Failure::recording)?));
        let gc = options.gc.map(Collecting::name);
        let watched =
            text::Watched { operators: &options.operators, automatic: options.automatic.as_deref(), gc };
        segment.set_text(&text::python(&watched)).map_err(Failure::recording)?;
        let descriptor = segment.duplicate().map_err(Failure::recording)?;
        let (doorman, arrivals) = Doorman::open(&options.output, descriptor).map_err(Failure::recording)?;
        let whole = options.span.clone().map(|(name, input)| WholeSpan { name, input });
        let mut session = Session {
            meta: first_meta(options, &clock),
            fold: Fold::new(clock, out, Images::new(arrivals), whole),
            drain: Drain::new(segment),
            segment,
            doorman,
            operators: options.operators.clone(),
            directory: options.output.canonicalize().unwrap_or_else(|_| options.output.clone()),
            live: Live::default(),
            limit: options.foresight.as_ref().map(Limit::new).unwrap_or_default(),
            passed_over: false,
            still_running: 0,
            snapshot_after: Instant::now(),
            snapshot_peak: 0,
            own_peak: sample::resident(std::process::id()).map_or(0, |resident| resident.peak),
            wait: options.wait,
            last_sample: Instant::now(),
            last_tables: Instant::now(),
            tables_every: TABLES_EVERY,
            measure_after: Instant::now(),
        };
        if options.gc.is_some() {
            session.fold.watch_garbage();
        }
        if let Some(foresight) = &options.foresight {
            session.fold.spans.follow(foresight.model.clone());
        }
        session.fold.folded = Folded::new(options.keep);
        session.fold.sites.weights = SiteWeights::of(&session.meta);
        session.fold.sites.token.clone_from(&session.doorman.token);
        session.fold.sites.begun = session.meta.start_unix_ns / 1_000_000_000;
        Ok(session)
    }

    /// Sleeps a little, unless somebody wakes it.
    pub(super) fn rest(&self) {
        let sleeping = &self.segment.header().sleeping;
        sleeping.store(1, Ordering::SeqCst);
        futex::wait(sleeping, 1, NAP);
        sleeping.store(0, Ordering::Relaxed);
    }

    /// Waits for the kernel side to be loaded, and says in the trace which one it is.
    pub(super) fn take_kernel(&mut self, asked: Source, loading: Loading) -> Result<(), Failure> {
        let mut kernel = match loading.wait() {
            Some(Ok(kernel)) => kernel,
            Some(Err(error)) if asked == Source::Ebpf => return Err(Failure::recording(error)),
            Some(Err(error)) => {
                self.meta.recorded.insert("kernel_why".into(), error.to_string());
                return Ok(());
            }
            None => return Ok(()),
        };
        if let Some(side) = kernel.side() {
            side.watch_children_of(std::process::id()).map_err(Failure::recording)?;
        }
        self.meta.recorded.insert("kernel".into(), "ebpf".into());
        self.fold.kernel = Some(kernel);
        self.fold.sites.sees_touches = true;
        Ok(())
    }

    /// Opens perf events for the command, which this thread is about to start.
    fn sample_events(&mut self, asked: Accesses) {
        let (samples, recorded) = Samples::open(asked, self.fold.kernel.is_some());
        self.meta.recorded.extend(recorded);
        self.fold.samples = samples;
    }

    /// The command has been started: no other child of ours is to be watched.
    fn watch_no_more(&mut self) {
        if let Some(side) = self.fold.kernel.as_mut().and_then(Kernel::side) {
            side.let_go(std::process::id());
        }
    }

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
                if alone || self.wait == Wait::Main && since.elapsed() > GRACE {
                    return ending;
                }
            }
            // Few words are not worth a look of their own; who ends waits for one.
            if read == 0 || read < LITTLE && ending.is_none() {
                let collects = self.drain.collectors().next().is_some();
                // Until a writer or a signal handler clears the word, or the nap is over.
                futex::wait(&header.sleeping, 1, if collects { SHORT_NAP } else { NAP });
            }
            header.sleeping.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn round(&mut self, last: bool) -> usize {
        self.fold.clock.update();
        self.drain.step = self.fold.clock.step();
        let safe = self.fold.clock.stamp().saturating_sub(self.fold.clock.margin());
        self.fold.read_kernel();
        self.fold.read_samples();
        self.fold.join_the_probeless();
        self.fold.greet();
        // Who claimed a ring meanwhile has said hello before: `Fold::process_of` greets again.
        self.drain.meet_writers(&mut self.fold);
        for image in std::mem::take(&mut self.fold.replaced) {
            let threads = &self.fold.threads;
            self.drain.bury_if(|writer| threads[writer as usize].process == image);
        }
        let (read, horizon) = self.drain.round(safe, &mut self.fold, last);
        // Not beyond what the probe's events were passed on to: some thread may be in the middle of one.
        self.fold.kernel_until(horizon.min(safe));
        self.fold.samples_until(horizon.min(safe));
        self.look_at_the_ending();
        self.end_the_silent();
        for (writer, word) in self.drain.collectors() {
            self.fold.ask_for_collection(writer, word, safe);
        }
        self.sample();
        let higher = self.fold.total.peak_live > self.snapshot_peak + self.snapshot_peak / 32;
        let now = Instant::now();
        let peaks = higher && now > self.snapshot_after && self.last_tables.elapsed() > SNAPSHOT_APART;
        if peaks || now > self.snapshot_after && self.last_tables.elapsed() > self.tables_every {
            self.write_tables(false);
        }
        read
    }
}
