//! Takes ordered events and folds them into rows, peaks and spans.

mod accesses;
mod block_sums;
mod devices;
mod ended;
mod events;
mod garbage;
mod heap;
mod images;
mod kernel;
mod lifecycle;
mod mappings;
mod placements;
mod protection;
mod refused;
mod retired;
mod row_writer;
mod rows;
mod samples;
mod shared;
mod spans;
mod tables;
mod totals;
mod unrecorded;
mod view;

use std::sync::mpsc::Receiver;

use memtrace_analysis::Model;
use memtrace_trace::TraceWriter;
use memtrace_trace::rows::ArrayInfo;
use memtrace_trace::weights::SiteWeights;
use rustc_hash::FxHashMap;

pub use self::block_sums::Keep;
use self::devices::PendingRow;
use self::images::ImageIndex;
use self::lifecycle::Lifecycle;
pub use self::placements::Placements;
pub use self::retired::{OwnMappings, Retired};
use self::row_writer::RowWriter;
pub use self::totals::Totals;
use self::unrecorded::Unrecorded;
use super::kernel::Kernel;
use super::procfs::cgroup::Cgroups;
use super::samples::Samples;
use super::sites::Sites;
use super::spans::Spans;
use super::state::garbage::Garbage;
use super::state::process::Process;
use super::state::processes::Processes;
use super::state::shared::SharedMemory;
use super::state::threads::Threads;
use super::transport::clock::Clock;
use super::transport::handshake::Arrival;

/// What `--span` records.
pub struct WholeSpan {
    /// Name of the operator.
    pub name: String,
    /// Its input.
    pub input: ArrayInfo,
}

/// What a fold is made of.
pub struct Setup {
    /// Converts stamps.
    pub clock: Clock,
    /// The trace.
    pub out: TraceWriter,
    /// Processes whose probe says hello.
    pub arrivals: Receiver<Arrival>,
    /// The recording's token, which its processes have in their environment.
    pub token: String,
    /// When the recording began, in seconds since 1970.
    pub begun: i64,
    /// What a block that has a call stack counts for.
    pub weights: SiteWeights,
    /// Which blocks get rows.
    pub keep: Keep,
    /// The whole command as one span.
    pub whole: Option<WholeSpan>,
    /// Garbage is distinguished from memory in use.
    pub watches_garbage: bool,
    /// What is to be placed, and nothing is yet.
    pub placements: Placements,
    /// Laws that spans are followed against.
    pub model: Option<Model>,
}

/// Everything folded so far.
pub struct Fold {
    clock: Clock,
    /// Process images, by index.
    processes: Processes,
    /// Their threads, by index.
    threads: Threads,
    /// What is kept of processes that have left.
    retired: Retired,
    spans: Spans,
    sites: Sites,
    totals: Totals,
    images: ImageIndex,
    shared: SharedMemory,
    unrecorded: Unrecorded,
    /// Where kills for lack of memory are counted.
    cgroups: Cgroups,
    rows: RowWriter,
    /// Rows of device blocks whose release may yet fail, by the thread that reported it.
    pending_rows: FxHashMap<u32, PendingRow>,
    placements: Placements,
    garbage: Option<Garbage>,
    kernel: Option<Kernel>,
    samples: Samples,
    lifecycle: Lifecycle,
    token: String,
    /// The recorded command's own pid.
    root: u32,
    /// The recording is of processes that ran before: none of them has a probe.
    attached: bool,
    /// Nanoseconds threads waited for the tracer.
    waited_ns: u64,
    /// Stamp of the last event that was folded.
    now: u64,
    whole: Option<WholeSpan>,
}

impl Fold {
    /// Nothing folded yet.
    pub fn new(setup: Setup) -> Fold {
        let mut spans = Spans::default();
        if setup.watches_garbage {
            spans.watch_garbage();
        }
        if let Some(model) = setup.model {
            spans.follow(model);
        }
        Fold {
            clock: setup.clock,
            processes: Processes::default(),
            threads: Threads::default(),
            retired: Retired::default(),
            spans,
            sites: Sites::new(setup.token.clone(), setup.begun, setup.weights),
            totals: Totals::default(),
            images: ImageIndex::new(setup.arrivals),
            shared: SharedMemory::default(),
            unrecorded: Unrecorded::default(),
            cgroups: Cgroups::default(),
            rows: RowWriter::new(setup.out, setup.keep),
            pending_rows: FxHashMap::default(),
            placements: setup.placements,
            garbage: setup.watches_garbage.then(Garbage::default),
            kernel: None,
            samples: Samples::default(),
            lifecycle: Lifecycle::default(),
            token: setup.token,
            root: 0,
            attached: false,
            waited_ns: 0,
            now: 0,
            whole: setup.whole,
        }
    }

    /// The kernel side, from now on.
    pub fn set_kernel(&mut self, kernel: Kernel) {
        if kernel.sees_faults() {
            self.sites.watch_touches();
        }
        self.kernel = Some(kernel);
    }

    /// What perf events sample, from now on.
    pub fn set_samples(&mut self, samples: Samples) {
        self.samples = samples;
    }

    /// The command was started under this pid, and has not said hello.
    pub fn set_root(&mut self, pid: u32, name: &str) {
        self.root = pid;
        self.unrecorded.unmet(pid, name);
    }

    /// The recording is of a process that runs already.
    pub fn attach_to(&mut self, pid: u32) {
        self.root = pid;
        self.attached = true;
    }

    /// Takes in everything but the probes' events. Returns the stamp up to which those are known,
    /// as soon as the writers of all rings were met.
    pub fn begin_round(&mut self) -> u64 {
        self.clock.update();
        let safe = self.clock.stamp().saturating_sub(self.clock.margin());
        self.read_kernel();
        self.samples.read();
        self.join_the_uninstrumented();
        self.greet();
        safe
    }

    /// Folds what the kernel reported and what was sampled up to this stamp.
    pub fn advance(&mut self, stamp: u64) {
        self.kernel_until(stamp);
        self.samples_until(stamp);
    }

    /// The process of a thread.
    fn process_mut_of(&mut self, writer: u32) -> &mut Process {
        &mut self.processes[self.threads[writer].process]
    }

    /// It is at least this late, though no probe's event shows it.
    fn at(&mut self, stamp: u64) {
        self.now = self.now.max(stamp);
    }
}
