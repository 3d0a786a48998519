//! The kernel side of a recording: what BPF programs see of the recorded processes, joined with what the probe tells.

mod images;
mod join;

use std::collections::VecDeque;
use std::thread::JoinHandle;

use memtrace_ebpf::{Error, Event, Parts, What};
use rustc_hash::FxHashMap;

use super::clock::Clock;

pub use images::{Image, Images};
pub use join::pages;

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

/// Programs that are being loaded on a thread of their own: that takes some ten milliseconds.
pub struct Loading(Option<JoinHandle<Result<memtrace_ebpf::Kernel, Error>>>);

impl Loading {
    /// Begins to load, unless it is not asked for.
    pub fn start(source: Source, parts: Parts) -> Loading {
        Loading((source != Source::Proc).then(|| {
            std::thread::spawn(move || {
                super::launch::block_signals();
                memtrace_ebpf::Kernel::load(parts)
            })
        }))
    }

    /// Waits for it; `None` if nothing is to be loaded.
    pub fn wait(self) -> Option<Result<memtrace_ebpf::Kernel, Error>> {
        self.0?.join().ok()
    }
}

/// Programs at work, and what they have told that is not folded yet.
pub struct Kernel {
    side: Option<memtrace_ebpf::Kernel>,
    lost: u64,
    pending: VecDeque<Event>,
    /// Stamps up to which the probe's events are to be folded first, to know what was live at a resident peak.
    pauses: VecDeque<u64>,
    /// Process images as the kernel saw them.
    pub images: Images,
}

impl Kernel {
    /// Nothing was told yet.
    pub fn new(side: memtrace_ebpf::Kernel) -> Kernel {
        Kernel { side: Some(side), lost: 0, pending: VecDeque::new(), pauses: VecDeque::new(), images: Images::default() }
    }

    /// The programs, until they are detached.
    pub fn side(&mut self) -> Option<&mut memtrace_ebpf::Kernel> {
        self.side.as_mut()
    }

    /// The next pause up to the horizon.
    pub fn pause(&mut self, horizon: u64) -> Option<u64> {
        self.pauses.pop_front_if(|stamp| *stamp <= horizon)
    }

    /// Finds the pauses: where memory has come higher than ever and goes down after it.
    fn plan_pauses(&mut self, clock: &Clock) {
        // A little later: the event itself is to be folded then, however times are rounded.
        let pause = |ns: u64| clock.stamp_of_monotonic(ns + 100);
        let mut highest: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
        self.pauses.clear();
        for event in &self.pending {
            let What::Resident { now, high, .. } = event.what else { continue };
            let peak = || (self.images.latest(event.pid).map_or(0, |image| image.peak), 0);
            let (most, ns) = highest.entry(event.pid).or_insert_with(peak);
            if now.resident() > *most {
                (*most, *ns) = (now.resident(), event.ns);
            } else if now.resident() < high && *ns > 0 {
                self.pauses.push_back(pause(std::mem::take(ns)));
            }
        }
        let rising = highest.values().filter(|(_, ns)| *ns > 0);
        self.pauses.extend(rising.map(|(_, ns)| pause(*ns)));
        self.pauses.make_contiguous().sort_unstable();
    }

    /// Events and processes for which there was no room.
    pub fn lost(&self) -> u64 {
        let lost = self.side.as_ref().map(memtrace_ebpf::Kernel::lost);
        lost.map_or(self.lost, |lost| lost.events + lost.processes)
    }

    /// Detaches the programs. That takes some milliseconds, so somebody else does it.
    pub fn detach(&mut self) {
        self.lost = self.lost();
        if let Some(side) = self.side.take() {
            std::thread::spawn(move || drop(side));
        }
    }
}
