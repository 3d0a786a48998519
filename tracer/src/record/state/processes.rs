//! The process images of a recording: those that run, and those that have ended a short time ago. A
//! build has a hundred thousand, of which a few do.

use std::collections::{BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};

use super::process::Process;
use super::sparse::Sparse;

/// Processes that have ended and are still here: what is reported late of them finds them, and so do
/// children that first allocate after their parent's end.
const ENDED_MAX: usize = 512;

/// By index, in the order they were met.
#[derive(Default)]
pub struct Processes {
    all: Sparse<Process>,
    running: BTreeSet<u32>,
    /// Those that are to leave, in the order of their ends.
    ended: VecDeque<u32>,
}

impl Processes {
    /// How many have been met; the index of the next one.
    pub fn met(&self) -> u32 {
        self.all.given_out()
    }

    /// Adds one that runs.
    pub fn push(&mut self, process: Process) {
        let index = self.all.push(process);
        self.running.insert(index);
    }

    /// The process has ended, at this stamp.
    pub fn end(&mut self, index: u32, stamp: u64) {
        self.running.remove(&index);
        self.all[index].end = Some(stamp);
        self.ended.push_back(index);
    }

    /// The process that ended first, if more have ended than stay. It is up to the caller whether it
    /// leaves: it is named once.
    pub fn ended_long_ago(&mut self) -> Option<u32> {
        (self.ended.len() > ENDED_MAX).then(|| self.ended.pop_front()).flatten()
    }

    /// One that cannot leave yet is to be named again, after all others.
    pub fn ended_again(&mut self, index: u32) {
        self.ended.push_back(index);
    }

    /// One that has ended leaves.
    pub fn remove(&mut self, index: u32) -> Option<Process> {
        self.all.remove(index)
    }

    /// One that has not left.
    pub fn get(&self, index: u32) -> Option<&Process> {
        self.all.get(index)
    }

    /// Those that have not left, by index.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Process> {
        self.all.values()
    }

    /// Those that have not ended, by index.
    pub fn running(&self) -> impl DoubleEndedIterator<Item = &Process> {
        self.running.iter().map(|index| &self.all[*index])
    }
}

impl Index<u32> for Processes {
    type Output = Process;

    #[inline(always)]
    fn index(&self, index: u32) -> &Process {
        &self.all[index]
    }
}

impl IndexMut<u32> for Processes {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut Process {
        &mut self.all[index]
    }
}

#[cfg(test)]
mod tests {
    use memtrace_trace::rows::ProcessRow;

    use super::*;

    fn of(count: u32) -> Processes {
        let mut processes = Processes::default();
        for pid in 0..count {
            processes.push(Process::new(ProcessRow { pid, ..ProcessRow::default() }, 0));
        }
        processes
    }

    #[test]
    fn those_that_have_not_ended_run() {
        let mut processes = of(3);
        processes.end(1, 50);
        let running: Vec<u32> = processes.running().map(|process| process.row.pid).collect();
        assert_eq!((running, processes.met(), processes[1].end), (vec![0, 2], 3, Some(50)));
        assert_eq!(processes.ended_long_ago(), None);
    }

    #[test]
    fn of_those_that_have_ended_the_first_leave() {
        let mut processes = of(2000);
        (1..2000).for_each(|index| processes.end(index, 50));
        let mut left = Vec::new();
        while let Some(index) = processes.ended_long_ago() {
            left.extend(processes.remove(index).map(|process| process.row.pid));
        }
        assert_eq!(left, (1..2000 - ENDED_MAX as u32).collect::<Vec<_>>());
        assert_eq!((processes.iter().count(), processes.met()), (1 + ENDED_MAX, 2000));
        assert!(processes.get(1).is_none() && processes.get(0).is_some());
    }
}
