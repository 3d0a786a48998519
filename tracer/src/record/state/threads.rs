//! The threads of a recording: those that run, and those that ended a short time ago.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use memtrace_trace::rows::ThreadRow;

use super::sparse::Sparse;

/// Threads that are gone and still here, as large blocks are that they allocated.
const GONE_MAX: usize = 512;

/// By index, in the order they were met.
#[derive(Default)]
pub struct Threads {
    all: Sparse<ThreadRow>,
    /// Those that are to leave, in the order of their ends.
    gone: VecDeque<u32>,
}

impl Threads {
    /// How many have been met; the index of the next one.
    pub fn met(&self) -> u32 {
        self.all.given_out()
    }

    /// Adds one.
    pub fn push(&mut self, row: ThreadRow) -> u32 {
        self.all.push(row)
    }

    /// The thread has ended.
    pub fn ended(&mut self, index: u32) {
        self.gone.push_back(index);
    }

    /// The thread that ended first, if more have ended than stay. It is named once.
    pub fn gone_long_ago(&mut self) -> Option<u32> {
        (self.gone.len() > GONE_MAX).then(|| self.gone.pop_front()).flatten()
    }

    /// One leaves.
    pub fn remove(&mut self, index: u32) -> Option<ThreadRow> {
        self.all.remove(index)
    }

    /// One that has not left.
    pub fn get(&self, index: u32) -> Option<&ThreadRow> {
        self.all.get(index)
    }

    /// Those that have not left, by index.
    pub fn iter(&self) -> impl Iterator<Item = &ThreadRow> {
        self.all.values()
    }
}

impl Index<u32> for Threads {
    type Output = ThreadRow;

    #[inline(always)]
    fn index(&self, index: u32) -> &ThreadRow {
        &self.all[index]
    }
}

impl IndexMut<u32> for Threads {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut ThreadRow {
        &mut self.all[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_those_that_have_ended_the_first_leave() {
        let mut threads = Threads::default();
        for thread in 0..1000 {
            threads.push(ThreadRow { thread, process: 0, tid: thread, start_ns: 0, events: 0 });
        }
        (0..1000).rev().for_each(|thread| threads.ended(thread));
        let mut left = Vec::new();
        while let Some(thread) = threads.gone_long_ago() {
            left.extend(threads.remove(thread).map(|row| row.thread));
        }
        assert_eq!(left, (GONE_MAX as u32..1000).rev().collect::<Vec<_>>());
        assert_eq!((threads.iter().count(), threads.met()), (GONE_MAX, 1000));
        assert!(threads.get(999).is_none() && threads.get(0).is_some());
    }
}
