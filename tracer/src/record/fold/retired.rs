//! Processes that ended long ago leave memory: their rows are written, and what a recording says of
//! all its processes is kept.

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
}

impl Retired {
    /// Sums over them.
    pub fn sums(&self) -> Sums {
        self.sums
    }

    /// The own mappings of the one with the largest peak.
    pub fn largest(&self) -> Option<OwnMappings> {
        self.largest
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
            if !self.stays(&self.processes[index]) {
                return Some(index);
            }
        }
        None
    }

    /// True for one that is named when the recording ends, or has rows of other tables that are written
    /// then.
    fn stays(&self, process: &Process) -> bool {
        let by_kernel = self.kernel_image(process.row.process).is_none_or(Image::may_be_killed);
        let may_be_killed = process.killed_with.is_some() && !process.replaced && by_kernel;
        process.row.pid == self.root
            || process.writers > 0
            || process.devices.is_some()
            || !process.refusals.is_empty()
            || self.spans.are_of(process.row.process)
            || may_be_killed
    }

    /// A process leaves: its rows are all that is left of it.
    pub fn retire(&mut self, index: u32) {
        self.write_peak(index);
        let row = self.process_row(&self.processes[index]);
        let Some(process) = self.processes.remove(index) else { return };
        self.retired.add(&process, &row);
        let threads: Vec<ThreadRow> =
            process.threads.iter().filter_map(|thread| self.threads.remove(*thread)).collect();
        let mut modules = process.image.map(|image| self.images.retire(image)).unwrap_or_default();
        modules.extend(self.sites.retire(index));
        self.samples.retire(process.row.pid, index, &threads);
        if let Some(kernel) = &mut self.kernel {
            kernel.retire(index, &threads);
        }
        if let Some(garbage) = &mut self.garbage {
            garbage.retire(index);
        }
        self.rows.write(|out| {
            out.settle(row, threads, modules);
            Ok(())
        });
    }
}
