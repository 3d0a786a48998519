//! Processes and threads that ended long ago leave memory: their rows are written, and what a
//! recording says of all its processes is kept.

use std::collections::BTreeSet;

use memtrace_trace::rows::{ProcessRow, ThreadRow};

use super::Fold;
use crate::record::kernel::Image;
use crate::record::state::process::Process;
use crate::record::state::sums::Sums;

/// Mappings that a process made itself, at the peak of its live bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnMappings {
    /// Its pid.
    pub pid: u32,
    /// The peak.
    pub peak_bytes: u64,
    /// Of them, what was mapped.
    pub bytes: u64,
}

impl OwnMappings {
    /// Those of a process.
    pub fn of(process: &Process) -> OwnMappings {
        let peak_bytes = process.row.peak_live_bytes;
        let bytes = peak_bytes.saturating_sub(process.at_peak.heap);
        OwnMappings { pid: process.row.pid, peak_bytes, bytes }
    }
}

/// What is kept of processes that have left.
#[derive(Debug, Default)]
pub struct Retired {
    sums: Sums,
    /// Of the process with the largest peak.
    largest: Option<OwnMappings>,
    /// Processes that have not left since they may have been killed for lack of memory.
    suspects: BTreeSet<Suspect>,
}

/// A process that may have been killed for lack of memory. The first ones leave first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Suspect {
    /// The kernel has said so.
    is_victim: bool,
    /// What it retained.
    live: u64,
    process: u32,
}

/// A report names a few; there are as many that were killed for another reason as a program likes.
const SUSPECTS_MAX: usize = 256;

impl Retired {
    /// Sums over them.
    pub fn sums(&self) -> Sums {
        self.sums
    }

    /// The own mappings of the one with the largest peak.
    pub fn largest(&self) -> Option<OwnMappings> {
        self.largest
    }

    /// One more that may have been killed. The one that retained least leaves if there are too many.
    fn suspect(&mut self, suspect: Suspect) -> Option<u32> {
        self.suspects.insert(suspect);
        let leaves = (self.suspects.len() > SUSPECTS_MAX).then(|| self.suspects.pop_first());
        leaves.flatten().map(|suspect| suspect.process)
    }

    fn add(&mut self, process: &Process, row: &ProcessRow) {
        self.sums.add(row);
        let own = OwnMappings::of(process);
        if self.largest.is_none_or(|largest| largest.peak_bytes < own.peak_bytes) {
            self.largest = Some(own);
        }
    }
}

impl Fold {
    /// A process that can [leave](Fold::retire) now, if there is one.
    pub fn next_retired(&mut self) -> Option<u32> {
        while let Some(index) = self.processes.ended_long_ago() {
            let process = &self.processes[index];
            if process.writers > 0 {
                // An image that was replaced: its rings are still to be read.
                self.processes.ended_again(index);
                return None;
            }
            if self.is_named_at_the_end(process) {
                continue;
            }
            let by_kernel = self.kernel_image(index).is_none_or(Image::may_be_killed);
            let killed_with = process.killed_with.as_ref().filter(|_| by_kernel && !process.replaced);
            let leaves = match killed_with.map(|retained| retained.live) {
                Some(live) => {
                    let is_victim = self.is_victim(index);
                    self.retired.suspect(Suspect { is_victim, live, process: index })
                }
                None => Some(index),
            };
            if leaves.is_some() {
                return leaves;
            }
        }
        None
    }

    /// True for one that is named when the recording ends, or has rows of other tables that are written
    /// then.
    fn is_named_at_the_end(&self, process: &Process) -> bool {
        process.row.pid == self.root
            || process.devices.is_some()
            || !process.refusals.is_empty()
            || self.spans.have_been_in(process.row.process)
    }

    /// Threads that ended long ago leave, of which no span has to say which they were.
    pub fn retire_threads(&mut self) {
        while let Some(index) = self.threads.gone_long_ago() {
            let Some(process) = self.threads.get(index).map(|row| row.process) else { continue };
            if self.spans.have_been_in(process) {
                continue;
            }
            let rows: Vec<ThreadRow> = self.threads.remove(index).into_iter().collect();
            self.processes[process].threads.remove(&index);
            self.samples.threads_left(&rows);
            self.rows.write(|out| out.settle_threads(rows));
        }
    }

    /// A process leaves: its rows are all that is left of it.
    pub fn retire(&mut self, index: u32) {
        self.write_peak(index);
        let row = self.process_row(&self.processes[index]);
        let Some(process) = self.processes.remove(index) else { return };
        self.retired.add(&process, &row);
        let threads: Vec<ThreadRow> =
            process.threads.iter().filter_map(|thread| self.threads.remove(*thread)).collect();
        let mut modules = process.image.map(|image| self.images.retire(image, &process)).unwrap_or_default();
        modules.extend(self.sites.retire(index));
        self.samples.retire(index, &threads);
        if let Some(kernel) = &mut self.kernel {
            kernel.retire(index, &threads);
        }
        if let Some(garbage) = &mut self.garbage {
            garbage.retire(index);
        }
        self.rows.write(|out| {
            out.settle_process(row, modules)?;
            out.settle_threads(threads)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_the_kernel_has_killed_stays_though_it_retained_little() {
        let mut retired = Retired::default();
        retired.suspect(Suspect { is_victim: true, live: 1, process: 0 });
        let others =
            (1..=SUSPECTS_MAX as u32).map(|process| Suspect { is_victim: false, live: 500, process });
        let left: Vec<u32> = others.filter_map(|suspect| retired.suspect(suspect)).collect();
        assert_eq!(left, [1]);
    }
}
