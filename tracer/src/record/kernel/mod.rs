//! The kernel side of a recording: what BPF programs see of the recorded processes, until it is
//! folded.

mod call;
mod images;
mod loading;
mod pending_release;
mod rows;
pub mod uprobe;

use std::collections::{BTreeSet, VecDeque};

use memtrace_ebpf::{Event, What};
use memtrace_trace::rows::ThreadRow;
use rustc_hash::FxHashMap;

pub use self::call::{MapCall, length_at};
pub use self::images::{Image, Images};
use self::loading::Attacher;
pub use self::loading::{Loading, Source};
pub use self::pending_release::PendingReleases;
pub use self::rows::{describe, exit_code, pages};
use super::transport::clock::Clock;

/// Programs at work.
struct Programs {
    kernel: memtrace_ebpf::Kernel,
    attacher: Attacher,
}

/// See the module.
pub struct Kernel {
    /// `None` once they are detached.
    programs: Option<Programs>,
    lost: u64,
    /// Events that are not folded yet.
    pending: VecDeque<Event>,
    /// Runs of faults that went on when it was last read.
    unfinished: Vec<Event>,
    /// Stamps up to which the probe's events are to be folded first, to know what was live when
    /// memory came so high.
    pauses: VecDeque<u64>,
    /// Threads of processes without a probe, by process and kernel id.
    threads: FxHashMap<(u32, u32), u32>,
    releases: PendingReleases,
    /// Lengths of System V segments, by id.
    segments: FxHashMap<u64, u64>,
    /// Programs that were recorded without a probe.
    uninstrumented: BTreeSet<String>,
    /// System calls are reported, or will be.
    calls: bool,
    sees_faults: bool,
    images: Images,
}

impl Kernel {
    fn new(kernel: memtrace_ebpf::Kernel, attacher: Attacher, calls: bool) -> Kernel {
        Kernel {
            sees_faults: kernel.faults_missing.is_none(),
            programs: Some(Programs { kernel, attacher }),
            lost: 0,
            pending: VecDeque::new(),
            unfinished: Vec::new(),
            pauses: VecDeque::new(),
            threads: FxHashMap::default(),
            releases: PendingReleases::default(),
            segments: FxHashMap::default(),
            uninstrumented: BTreeSet::new(),
            calls,
            images: Images::default(),
        }
    }

    /// The programs, until they are detached.
    pub fn programs(&mut self) -> Option<&mut memtrace_ebpf::Kernel> {
        self.programs.as_mut().map(|programs| &mut programs.kernel)
    }

    /// True if page faults are reported.
    pub fn sees_faults(&self) -> bool {
        self.sees_faults
    }

    /// Process images as the kernel saw them.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// The same, to be changed.
    pub fn images_mut(&mut self) -> &mut Images {
        &mut self.images
    }

    /// Ranges of processes without a probe whose unmapping is still to be reported.
    pub fn releases(&mut self) -> &mut PendingReleases {
        &mut self.releases
    }

    /// Takes in what was reported since.
    pub fn read(&mut self, clock: &Clock) {
        let Some(Programs { kernel, .. }) = &mut self.programs else { return };
        let before = self.pending.len();
        // In this order: a run that comes to its end in between is reported twice, not never.
        self.unfinished = kernel.unfinished();
        kernel.read(|event| self.pending.push_back(event));
        if self.pending.len() > before {
            // A run of faults has the time of its first and is reported after its last.
            self.pending.make_contiguous().sort_by_key(|event| event.ns);
            self.plan_pauses(clock);
        }
    }

    /// The next event up to a time of CLOCK_MONOTONIC.
    pub fn next_until(&mut self, until_ns: u64) -> Option<Event> {
        let event = self.pending.front()?;
        if event.ns <= until_ns { self.pending.pop_front() } else { None }
    }

    /// True if there are events to be folded.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// All events that are left.
    pub fn take_pending(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut self.pending)
    }

    /// Runs of faults that went on when it was last read, and began by then (CLOCK_MONOTONIC).
    pub fn take_unfinished(&mut self, until_ns: u64) -> Vec<Event> {
        self.unfinished.extract_if(.., |event| event.ns <= until_ns).collect()
    }

    /// The index of a thread of a process without a probe; `next` if it is new.
    pub fn thread(&mut self, process: u32, tid: u32, next: u32) -> u32 {
        *self.threads.entry((process, tid)).or_insert(next)
    }

    /// A process leaves, with these threads.
    pub fn retire(&mut self, process: u32, threads: &[ThreadRow]) {
        self.images.retire(process);
        for thread in threads {
            self.threads.remove(&(process, thread.tid));
        }
    }

    /// The length of a System V segment, which may be gone when it is attached elsewhere.
    pub fn note_segment(&mut self, id: u64, bytes: u64) {
        self.segments.insert(id, bytes);
    }

    /// The length of the segment with this id.
    pub fn segment(&self, id: u64) -> Option<u64> {
        self.segments.get(&id).copied()
    }

    /// A program is recorded without a probe.
    pub fn note_uninstrumented(&mut self, program: &str) {
        self.uninstrumented.insert(program.into());
    }

    /// Programs that were recorded without a probe.
    pub fn uninstrumented(&self) -> &BTreeSet<String> {
        &self.uninstrumented
    }

    /// Some program has no probe in it: from a moment on, system calls are reported.
    pub fn request_calls(&mut self) {
        if let Some(programs) = &self.programs
            && !std::mem::replace(&mut self.calls, true)
        {
            programs.attacher.request_calls();
        }
    }

    /// True once, after that moment.
    pub fn calls_began(&self) -> bool {
        self.programs.as_ref().is_some_and(|programs| programs.attacher.calls_began())
    }

    /// The next pause up to the horizon.
    pub fn pause(&mut self, horizon: u64) -> Option<u64> {
        self.pauses.front().filter(|stamp| **stamp <= horizon)?;
        self.pauses.pop_front()
    }

    /// Finds the pauses: where memory has come higher by a step. Any of those may be the peak of
    /// its process or of a span.
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

    /// Takes in the peaks of processes that run on, or whose end found no room among the events.
    pub fn read_leftovers(&mut self) {
        let leftovers = self.programs().map(|kernel| kernel.leftovers()).unwrap_or_default();
        leftovers.iter().for_each(|left| self.images.left_over(left));
    }

    /// Events and processes for which there was no room.
    pub fn lost(&self) -> u64 {
        let lost = self.programs.as_ref().map(|programs| programs.kernel.lost());
        lost.map_or(self.lost, |lost| lost.events + lost.processes)
    }

    /// Detaches the programs, which takes some milliseconds, on a thread of its own. Returns a
    /// sentence on those that could not be attached.
    pub fn detach(&mut self) -> Option<String> {
        self.lost = self.lost();
        let Programs { kernel, attacher } = self.programs.take()?;
        let (attached, result) = attacher.stop();
        // Dropped here and now where there are no more threads.
        let _ = std::thread::Builder::new().spawn(move || drop((attached, kernel)));
        result.err().map(|error| format!("Part of the kernel side is missing: {error}."))
    }
}
