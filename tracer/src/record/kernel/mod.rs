//! The kernel side of a recording: what BPF programs see of the recorded processes, joined with what the probe tells.

mod alone;
mod calls;
mod held;
mod images;
mod join;
mod large;
mod pages;
mod untouched;

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use memtrace_ebpf::{Attached, Error, Event, Parts, Rest, What};
use rustc_hash::FxHashMap;

use super::clock::Clock;

pub use alone::parent_of;
pub use held::Held;
pub use images::{Image, Images};
pub use join::pages;
pub use large::{LARGE, LargeBlocks};
pub use pages::Pages;

/// What sees the kernel's side of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Source {
    /// BPF programs where they are allowed, else /proc.
    Auto,
    /// BPF programs, or no recording.
    Ebpf,
    /// /proc: sampled sizes, and VmHWM.
    Proc,
}

/// Programs that are being loaded on a thread of their own: that takes some ten milliseconds. It goes on with those
/// that no command has to wait for.
pub struct Loading(Option<Loaded>);

struct Loaded {
    loaded: Receiver<Result<memtrace_ebpf::Kernel, Error>>,
    later: Later,
    calls: bool,
}

/// The thread that attaches the rest.
struct Later {
    asks: Sender<Ask>,
    /// Tells that system calls are told of.
    calls: Receiver<()>,
    thread: JoinHandle<(Attached, Result<(), Error>)>,
}

/// What it is asked for.
enum Ask {
    Calls,
    Stop,
}

/// Who runs for less time than this is not told of lack of memory.
const BEFORE_PRESSURE: Duration = Duration::from_millis(100);

impl Loading {
    /// Begins to load, unless it is not asked for.
    pub fn start(source: Source, parts: Parts) -> Loading {
        Loading((source != Source::Proc).then(|| {
            let (ready, loaded) = channel();
            let (asks, asked) = channel();
            let (told, calls) = channel();
            let thread = std::thread::spawn(move || {
                super::launch::block_signals();
                load(parts, &ready, &asked, &told)
            });
            Loaded { loaded, later: Later { asks, calls, thread }, calls: parts.calls }
        }))
    }

    /// Waits for it; `None` if nothing is to be loaded.
    pub fn wait(self) -> Option<Result<Kernel, Error>> {
        let loading = self.0?;
        let side = loading.loaded.recv().ok()?;
        Some(side.map(|side| Kernel::new(side, loading.later, loading.calls)))
    }
}

fn load(
    parts: Parts,
    ready: &Sender<Result<memtrace_ebpf::Kernel, Error>>,
    asked: &Receiver<Ask>,
    told: &Sender<()>,
) -> (Attached, Result<(), Error>) {
    let mut attached = Attached::default();
    let (kernel, mut rest) = match memtrace_ebpf::Kernel::load(parts) {
        Ok((kernel, rest)) => (Ok(kernel), rest),
        Err(error) => (Err(error), Rest::default()),
    };
    let _ = ready.send(kernel);
    let mut result = Ok(());
    let mut patience = BEFORE_PRESSURE;
    loop {
        match asked.recv_timeout(patience) {
            Ok(Ask::Calls) => {
                let calls = attached.calls(&mut rest);
                if calls.is_ok() {
                    let _ = told.send(());
                }
                result = result.and(calls);
            }
            Err(RecvTimeoutError::Timeout) => {
                result = result.and_then(|()| attached.pressure(&mut rest));
                patience = Duration::MAX;
            }
            Ok(Ask::Stop) | Err(RecvTimeoutError::Disconnected) => return (attached, result),
        }
    }
}

/// Programs at work, and what they have told that is not folded yet.
pub struct Kernel {
    side: Option<(memtrace_ebpf::Kernel, Later)>,
    lost: u64,
    pending: VecDeque<Event>,
    /// Runs of faults that went on when it was last read.
    unfinished: Vec<Event>,
    /// Stamps up to which the probe's events are to be folded first, to know what was live when memory came so high.
    pauses: VecDeque<u64>,
    /// Threads of processes without a probe, by process and kernel id.
    threads: FxHashMap<(u32, u32), u32>,
    /// Places of theirs that were mapped anew before their unmapping was told.
    owed: Vec<calls::Owed>,
    /// Lengths of System V segments, by id.
    segments: FxHashMap<u64, u64>,
    /// Programs that were recorded without a probe.
    pub probeless: BTreeSet<String>,
    /// System calls are told of, or will be.
    calls: bool,
    /// Process images as the kernel saw them.
    pub images: Images,
}

impl Kernel {
    /// Nothing was told yet.
    fn new(side: memtrace_ebpf::Kernel, later: Later, calls: bool) -> Kernel {
        Kernel {
            side: Some((side, later)),
            lost: 0,
            pending: VecDeque::new(),
            unfinished: Vec::new(),
            pauses: VecDeque::new(),
            threads: FxHashMap::default(),
            owed: Vec::new(),
            segments: FxHashMap::default(),
            probeless: BTreeSet::new(),
            calls,
            images: Images::default(),
        }
    }

    /// The programs, until they are detached.
    pub fn side(&mut self) -> Option<&mut memtrace_ebpf::Kernel> {
        self.side.as_mut().map(|(side, _)| side)
    }

    /// Some program has no probe in it: from a moment on, system calls are told of.
    fn ask_for_calls(&mut self) {
        if let Some((_, later)) = &self.side
            && !std::mem::replace(&mut self.calls, true)
        {
            let _ = later.asks.send(Ask::Calls);
        }
    }

    /// True once, after that moment.
    fn calls_begin(&self) -> bool {
        self.side.as_ref().is_some_and(|(_, later)| later.calls.try_recv().is_ok())
    }

    /// The next pause up to the horizon.
    pub fn pause(&mut self, horizon: u64) -> Option<u64> {
        self.pauses.front().filter(|stamp| **stamp <= horizon)?;
        self.pauses.pop_front()
    }

    /// Finds the pauses: where memory has come higher by a step. Any of those may be the peak of its process or of a span.
    fn plan_pauses(&mut self, clock: &Clock) {
        let mut before: FxHashMap<u32, u64> = FxHashMap::default();
        self.pauses.clear();
        for event in &self.pending {
            let What::Resident { now, .. } = event.what else { continue };
            let latest = || self.images.latest(event.pid).map_or(0, |image| image.now.resident());
            let before = before.entry(event.pid).or_insert_with(latest);
            if now.resident() > *before {
                // A little later: the event itself is to be folded then, however times are rounded.
                self.pauses.push_back(clock.stamp_of_monotonic(event.ns + 100));
            }
            *before = now.resident();
        }
        self.pauses.make_contiguous().sort_unstable();
    }

    /// Events and processes for which there was no room.
    pub fn lost(&self) -> u64 {
        let lost = self.side.as_ref().map(|(side, _)| side.lost());
        lost.map_or(self.lost, |lost| lost.events + lost.processes)
    }

    /// Detaches the programs: that takes some milliseconds, so somebody else does it. Returns a sentence on those that
    /// could not be attached.
    pub fn detach(&mut self) -> Option<String> {
        self.lost = self.lost();
        let (side, later) = self.side.take()?;
        let _ = later.asks.send(Ask::Stop);
        let (attached, result) = later.thread.join().ok()?;
        std::thread::spawn(move || drop((attached, side)));
        result.err().map(|error| format!("Part of the kernel side is missing: {error}."))
    }
}
