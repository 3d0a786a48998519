//! The kernel side of a recording: what BPF programs see of the recorded processes, joined with what the probe tells.

mod images;
mod join;

use std::collections::VecDeque;
use std::thread::JoinHandle;

use memtrace_ebpf::{Error, Event, Parts};

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
    /// Process images as the kernel saw them.
    pub images: Images,
}

impl Kernel {
    /// Nothing was told yet.
    pub fn new(side: memtrace_ebpf::Kernel) -> Kernel {
        Kernel { side: Some(side), lost: 0, pending: VecDeque::new(), images: Images::default() }
    }

    /// The programs, until they are detached.
    pub fn side(&mut self) -> Option<&mut memtrace_ebpf::Kernel> {
        self.side.as_mut()
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
