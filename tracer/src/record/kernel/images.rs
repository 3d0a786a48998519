//! Process images as the kernel saw them. One begins with a fork or an exec; the probe says hello
//! in it a little later, or never.

use std::collections::VecDeque;

use memtrace_ebpf::{Counters, Leftover};
use rustc_hash::FxHashMap;

use crate::record::state::footprint::Footprint;
use crate::record::state::sparse::Sparse;

/// What ran under a pid from a fork or an exec on.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// Its pid.
    pub pid: u32,
    /// Its parent's, if it was forked while recorded.
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
    /// Its resident bytes when the kernel chose it to be killed for lack of memory. Since Linux
    /// 6.16 its end is reported before it releases them, until then afterwards.
    pub killed_with: Option<u64>,
    /// Wait status, once it has exited.
    pub status: Option<u32>,
    /// No probe is in it, or can be: its row and its mappings are made from the kernel's events.
    pub uninstrumented: bool,
    /// Where its program break is, once it was moved.
    pub program_break: Option<u64>,
    /// The image before it under its pid.
    pub before: Option<u32>,
    /// Its end was reported, with its peak.
    pub reported_end: bool,
    /// It executed another program.
    pub replaced: bool,
    /// Its row in `processes`, once the probe has said hello in it.
    pub process: Option<u32>,
    /// Resident memory, now or in the end.
    pub now: Counters,
    /// The most there ever was, as reported so far; exact once the image has ended.
    pub peak: u64,
    /// When that ended.
    pub peak_ns: u64,
    /// Of what.
    pub at_peak: Counters,
    /// The process's footprint then.
    pub footprint_at_peak: Option<Footprint>,
    /// The largest footprint since resident memory was last reported.
    pub footprint_since: Option<Footprint>,
    /// Page faults, the kernel's on its behalf included.
    pub faults: u64,
    /// Those whose addresses were not reported.
    pub thinned: u64,
}

/// How resident memory has moved, by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// It rose.
    pub rose: bool,
    /// The most since the last event is the most so far.
    pub higher: bool,
    /// What it was made of when it was highest.
    pub at_high: Counters,
    /// The image's process, once it has a row.
    pub process: Option<u32>,
    /// The largest footprint since the last event.
    pub footprint_since: Option<Footprint>,
}

impl Image {
    /// Of what was executed or forked, and never said hello, only its resident memory is known. What
    /// lived between fork and exec is left out.
    pub fn is_unmet(&self) -> bool {
        self.process.is_none() && self.peak > 0 && (self.executed || !self.replaced)
    }

    /// False if it is known that it was not killed.
    pub fn may_be_killed(&self) -> bool {
        let killed = |status: u32| status & 0x7f == libc::SIGKILL as u32;
        self.killed_with.is_some() || !self.replaced && self.status.is_none_or(killed)
    }

    /// Notes the process's footprint before it releases some of it. That memory has fallen is
    /// reported afterwards, when it is too late to see the footprint where memory was highest.
    pub fn note_footprint(&mut self, footprint: Footprint) {
        self.footprint_since = Some(self.footprint_since.map_or(footprint, |before| before.max(footprint)));
    }

    /// Resident memory has moved: `now`, and at most `high` since the last event.
    pub fn moved(&mut self, now: Counters, high: u64, high_ns: u64) -> Moved {
        let before = std::mem::replace(&mut self.now, now);
        let rose = now.resident() > before.resident();
        let higher = high >= self.peak;
        // Where it has fallen meanwhile, what it was made of at its highest is known of the step
        // before; the end of the image reports it exactly.
        let of_what = if rose { now } else { before };
        let anon = high.saturating_sub(of_what.file + of_what.shmem);
        let at_high = Counters { anon, swap: now.swap, ..of_what };
        if higher {
            (self.peak, self.peak_ns, self.at_peak) = (high, high_ns, at_high);
        }
        let (process, footprint_since) = (self.process, self.footprint_since);
        Moved { rose, higher, at_high, process, footprint_since }
    }

    /// Its end is reported, with its exact peak.
    pub fn end(&mut self, ns: u64, at_peak: Counters, peak: u64, peak_ns: u64) {
        if peak > self.peak {
            self.footprint_at_peak = self.footprint_since.or(self.footprint_at_peak);
        }
        (self.peak, self.peak_ns, self.at_peak) = (peak, peak_ns, at_peak);
        (self.end_ns, self.reported_end) = (Some(ns), true);
    }
}

/// Images without a process that stay, whether they are over or not.
const WAITING_MAX: usize = 1024;
/// Of more, so many are looked at in one round.
const LOOKED_AT: usize = 64;

/// Those that run, and those that were over a short time ago.
#[derive(Debug, Default)]
pub struct Images {
    all: Sparse<Image>,
    latest: FxHashMap<u32, u32>,
    of_process: FxHashMap<u32, u32>,
    /// Those that had no process when they were looked at last.
    waiting: VecDeque<u32>,
    /// Faults of those that are gone whose addresses were not reported.
    thinned: u64,
}

impl Images {
    /// A new image under a pid.
    pub fn begin(&mut self, image: Image) {
        let index = self.all.given_out();
        let before = self.latest.insert(image.pid, index);
        if let Some(before) = before.filter(|_| image.executed).and_then(|before| self.all.get_mut(before)) {
            before.replaced = true;
        }
        self.all.push(Image { before, ..image });
        self.waiting.push_back(index);
    }

    /// The image that runs, or ran last, under a pid.
    pub fn latest(&self, pid: u32) -> Option<&Image> {
        self.latest.get(&pid).map(|index| &self.all[*index])
    }

    /// The same, to be changed.
    pub fn latest_mut(&mut self, pid: u32) -> Option<&mut Image> {
        self.latest.get(&pid).map(|index| &mut self.all[*index])
    }

    /// Lets go of images without a process that were over long ago. Returns the next one that is to
    /// have a row; each is named once.
    pub fn over_long_ago(&mut self) -> Option<Image> {
        for _ in 0..LOOKED_AT {
            if self.waiting.len() <= WAITING_MAX {
                return None;
            }
            let index = self.waiting.pop_front()?;
            let Some(image) = self.all.get(index).filter(|image| image.process.is_none()) else { continue };
            match (image.is_unmet(), image.end_ns) {
                (true, Some(_)) => return Some(image.clone()),
                (false, Some(_)) => self.remove(index),
                (false, None) if image.replaced => self.remove(index),
                (_, None) => self.waiting.push_back(index),
            }
        }
        None
    }

    /// The image of a process goes.
    pub fn retire(&mut self, process: u32) {
        if let Some(index) = self.of_process.remove(&process) {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: u32) {
        let Some(image) = self.all.remove(index) else { return };
        self.thinned += image.thinned;
        if self.latest.get(&image.pid) == Some(&index) {
            self.latest.remove(&image.pid);
        }
    }

    fn index_of(&self, image: &Image) -> Option<u32> {
        let is_it = |other: &Image| other.pid == image.pid && other.begin_ns == image.begin_ns;
        self.all.iter().rev().find(|(_, other)| is_it(other)).map(|(index, _)| index)
    }

    /// The peak of an image that the programs still had when they were read for the last time.
    pub fn left_over(&mut self, left: &Leftover) {
        let unreported = |image: &Image| image.pid == left.pid && !image.reported_end;
        let image = match left.ended {
            true => {
                let found = self.all.iter().find(|(_, image)| unreported(image)).map(|(index, _)| index);
                found.and_then(|index| self.all.get_mut(index))
            }
            false => self.latest_mut(left.pid),
        };
        if let Some(image) = image.filter(|image| left.peak > image.peak) {
            (image.peak, image.at_peak, image.peak_ns) = (left.peak, left.at_peak, left.peak_ns);
        }
    }

    /// A process whose probe said hello at that time is the image that ran under its pid then. It
    /// may be over: hellos of one pid that follow each other closely are met together. Returns the
    /// row that stood for the image, if no probe was expected in it.
    pub fn met(&mut self, pid: u32, process: u32, ns: u64) -> Option<u32> {
        let mut next = self.latest.get(&pid).copied();
        while let Some(index) = next {
            let image = self.all.get_mut(index)?;
            if image.begin_ns <= ns {
                let expected = !std::mem::replace(&mut image.uninstrumented, false);
                if expected && image.process.is_some() {
                    return None;
                }
                let stood_for_it = image.process.replace(process);
                if let Some(before) = stood_for_it {
                    self.of_process.remove(&before);
                }
                self.of_process.insert(process, index);
                return stood_for_it;
            }
            next = image.before;
        }
        None
    }

    /// An image has been given a row.
    pub fn belongs(&mut self, image: &Image, process: u32) {
        if let Some(index) = self.index_of(image) {
            self.all[index].process = Some(process);
            self.of_process.insert(process, index);
        }
    }

    /// The image of a process.
    pub fn of(&self, process: u32) -> Option<&Image> {
        self.all.get(*self.of_process.get(&process)?)
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, process: u32) -> Option<&mut Image> {
        self.all.get_mut(*self.of_process.get(&process)?)
    }

    /// Faults whose addresses were not reported.
    pub fn thinned(&self) -> u64 {
        self.thinned + self.iter().map(|image| image.thinned).sum::<u64>()
    }

    /// True while one of them has not ended.
    pub fn any_runs(&self) -> bool {
        self.running().next().is_some()
    }

    /// Those that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Image> {
        let latest = self.latest.values().map(|index| &self.all[*index]);
        latest.filter(|image| image.end_ns.is_none())
    }

    /// All that are here, in the order in which they began.
    pub fn iter(&self) -> impl Iterator<Item = &Image> {
        self.all.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anon(bytes: u64) -> Counters {
        Counters { anon: bytes, ..Counters::default() }
    }

    #[test]
    fn a_peak_that_has_passed_is_made_of_what_there_was_before() {
        let mut image = Image::default();
        assert!(image.moved(Counters { file: 10, ..anon(50) }, 60, 1).rose);
        let fallen = image.moved(anon(5), 80, 2);
        assert_eq!(
            (fallen.rose, fallen.higher, fallen.at_high),
            (false, true, Counters { file: 10, ..anon(70) })
        );
        assert_eq!((image.peak, image.peak_ns), (80, 2));
        assert!(!image.moved(anon(20), 20, 3).higher);
    }

    #[test]
    fn the_end_of_an_image_reports_its_peak_exactly() {
        let mut image = Image { peak: 80, ..Image::default() };
        image.note_footprint(Footprint { live: 7, ..Footprint::default() });
        image.note_footprint(Footprint { live: 6, ..Footprint::default() });
        image.end(9, anon(90), 90, 8);
        assert_eq!((image.peak, image.end_ns, image.reported_end), (90, Some(9), true));
        assert_eq!(image.footprint_at_peak.map(|footprint| footprint.live), Some(7));
    }

    #[test]
    fn what_was_over_long_ago_and_has_no_process_goes() {
        let mut images = Images::default();
        images.begin(Image { pid: 1, ..Image::default() });
        for pid in 2..3000 {
            images.begin(Image { pid, thinned: 1, end_ns: Some(5), ..Image::default() });
        }
        images.begin(Image { pid: 2500, executed: true, end_ns: Some(5), ..Image::default() });
        while images.waiting.len() > WAITING_MAX {
            assert!(images.over_long_ago().is_none(), "nothing was resident in them");
        }
        assert_eq!(images.iter().count(), WAITING_MAX);
        assert!(images.latest(1).is_some(), "it runs");
        assert!(images.latest(2).is_none() && images.latest(2500).is_some());
        assert_eq!(images.thinned(), 2998);
        assert_eq!(images.met(2500, 7, 0), None);
        images.retire(7);
        assert!(images.of(7).is_none() && images.latest(2500).is_none());
    }

    #[test]
    fn a_probe_takes_the_place_of_an_image_that_was_uninstrumented() {
        let mut images = Images::default();
        images.begin(Image {
            pid: 5,
            begin_ns: 10,
            executed: true,
            uninstrumented: true,
            ..Image::default()
        });
        let image = images.latest(5).cloned().unwrap();
        images.belongs(&image, 3);
        images.begin(Image { pid: 5, begin_ns: 30, executed: true, ..Image::default() });
        assert_eq!(images.met(5, 8, 20), Some(3), "the older one");
        assert_eq!(images.of(8).map(|image| image.begin_ns), Some(10));
        assert_eq!(images.met(5, 9, 40), None);
        assert!(images.of(8).is_some_and(|image| image.replaced));
    }
}
