//! All process images of a recording, and which of them run: a build has a hundred thousand, of
//! which a few do.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use super::process::Process;

/// By index, in the order they were met.
#[derive(Default)]
pub struct Processes {
    all: Vec<Process>,
    running: BTreeSet<u32>,
}

impl Processes {
    /// Adds one that runs.
    pub fn push(&mut self, process: Process) {
        self.running.insert(self.all.len() as u32);
        self.all.push(process);
    }

    /// The process has ended, at this stamp.
    pub fn end(&mut self, index: u32, stamp: u64) {
        self.running.remove(&index);
        self.all[index as usize].end = Some(stamp);
    }

    /// Those that have not ended, by index.
    pub fn running(&self) -> impl DoubleEndedIterator<Item = &Process> {
        self.running.iter().map(|index| &self.all[*index as usize])
    }
}

impl Deref for Processes {
    type Target = [Process];

    fn deref(&self) -> &[Process] {
        &self.all
    }
}

impl DerefMut for Processes {
    fn deref_mut(&mut self) -> &mut [Process] {
        &mut self.all
    }
}

#[cfg(test)]
mod tests {
    use memtrace_trace::rows::ProcessRow;

    use super::*;

    #[test]
    fn those_that_have_not_ended_run() {
        let mut processes = Processes::default();
        for pid in [7, 8, 9] {
            processes.push(Process::new(ProcessRow { pid, ..ProcessRow::default() }, 0));
        }
        processes.end(1, 50);
        let running: Vec<u32> = processes.running().map(|process| process.row.pid).collect();
        assert_eq!((running, processes.len(), processes[1].end), (vec![7, 9], 3, Some(50)));
    }
}
