//! Process images as the kernel saw them. One begins with a fork or an exec; the probe says hello in it a little later,
//! or never.

use memtrace_ebpf::Counters;
use rustc_hash::FxHashMap;

use super::Held;

/// What ran under a pid from a fork or an exec on.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// Its pid.
    pub pid: u32,
    /// Its parent's, if it was forked under our eyes.
    pub parent: u32,
    /// When it began, CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: Option<u64>,
    /// It began with an exec.
    pub executed: bool,
    /// It was running when the recording began.
    pub joined: bool,
    /// Command line, or the program's short name.
    pub command: String,
    /// The kernel has chosen it to be killed for lack of memory.
    pub victim: bool,
    /// Wait status, once it has exited.
    pub status: Option<u32>,
    /// No probe is in it, or can be: its row, its mappings are made from what the kernel tells.
    pub alone: bool,
    /// Where its program break is, once it was moved.
    pub program_break: Option<u64>,
    /// The image before it under its pid.
    pub before: Option<usize>,
    /// Its end was told, with its peak.
    pub told_end: bool,
    /// It executed another program.
    pub replaced: bool,
    /// Its row in `processes`, once the probe has said hello in it.
    pub process: Option<u32>,
    /// Resident memory, now or in the end.
    pub now: Counters,
    /// The most there ever was, as told so far; exact once the image has ended.
    pub peak: u64,
    /// When that ended.
    pub peak_ns: u64,
    /// Of what.
    pub at_peak: Counters,
    /// What was held then.
    pub held_at_peak: Option<Held>,
    /// The most that was held since resident memory was last told.
    pub held_since: Option<Held>,
    /// Page faults, the kernel's on its behalf included.
    pub faults: u64,
    /// Those whose addresses were not told.
    pub thinned: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Images {
    all: Vec<Image>,
    latest: FxHashMap<u32, usize>,
    of_process: FxHashMap<u32, usize>,
}

impl Images {
    /// A new image under a pid.
    pub fn begin(&mut self, image: Image) {
        let before = self.latest.insert(image.pid, self.all.len());
        if let Some(before) = before.filter(|_| image.executed) {
            self.all[before].replaced = true;
        }
        self.all.push(Image { before, ..image });
    }

    /// The image that runs, or ran last, under a pid.
    pub fn latest(&mut self, pid: u32) -> Option<&mut Image> {
        self.latest.get(&pid).map(|index| &mut self.all[*index])
    }

    /// The first image under a pid whose end was not told.
    pub fn untold(&mut self, pid: u32) -> Option<&mut Image> {
        self.all.iter_mut().find(|image| image.pid == pid && !image.told_end)
    }

    /// A process whose probe said hello at that time is the image that ran under its pid then. It may be over: hellos of
    /// one pid that follow each other closely are met together. Returns the row that stood for the image, if nobody had
    /// expected a probe in it.
    pub fn met(&mut self, pid: u32, process: u32, ns: u64) -> Option<u32> {
        let mut next = self.latest.get(&pid).copied();
        while let Some(index) = next {
            let image = &mut self.all[index];
            if image.begin_ns <= ns {
                let expected = !std::mem::replace(&mut image.alone, false);
                if expected && image.process.is_some() {
                    return None;
                }
                self.of_process.insert(process, index);
                return image.process.replace(process);
            }
            next = image.before;
        }
        None
    }

    /// An image has been given a row.
    pub fn belongs(&mut self, image: &Image, process: u32) {
        let is_it = |other: &Image| other.pid == image.pid && other.begin_ns == image.begin_ns;
        if let Some(index) = self.all.iter().rposition(is_it) {
            self.all[index].process = Some(process);
            self.of_process.insert(process, index);
        }
    }

    /// The image of a process.
    pub fn of(&self, process: u32) -> Option<&Image> {
        self.of_process.get(&process).map(|index| &self.all[*index])
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, process: u32) -> Option<&mut Image> {
        self.of_process.get(&process).map(|index| &mut self.all[*index])
    }

    /// Faults whose addresses were not told.
    pub fn thinned(&self) -> u64 {
        self.all.iter().map(|image| image.thinned).sum()
    }

    /// True while one of them has not ended.
    pub fn any_runs(&self) -> bool {
        self.running().next().is_some()
    }

    /// Those that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Image> {
        self.latest.values().map(|index| &self.all[*index]).filter(|image| image.end_ns.is_none())
    }

    /// All images, in the order in which they began.
    pub fn iter(&self) -> impl Iterator<Item = &Image> {
        self.all.iter()
    }
}
