//! Defaults for a process that runs tasks: one rule for every plan, on the command line and in
//! Python.

use crate::model::Model;

/// What a Dask worker has resident beyond the recorded process: `distributed`, its loop and logs,
/// 28 MB measured (docs/results/chunks.md), and pandas and pyarrow, which `dask.array` imports
/// where they are installed: 109 MB.
const DASK_WORKER_BYTES: u64 = 110_000_000;
/// Resident size of Python with NumPy and SciPy, where the recording was too short to sample it.
const PYTHON_BYTES: u64 = 100_000_000;

/// `distributed.worker.memory.spill` and `.pause` as fractions of the memory limit, when a
/// user's configuration says nothing else.
pub const SPILL: f64 = 0.70;
/// See [`SPILL`].
pub const PAUSE: f64 = 0.80;

/// The part of a worker's memory limit it may use: the lowest enabled of spill and pause, each
/// `None` when it is switched off.
pub fn budget_fraction(spill: Option<f64>, pause: Option<f64>) -> f64 {
    let usable = |fraction: &f64| *fraction > 0.0 && *fraction <= 1.0;
    spill.into_iter().chain(pause).filter(usable).fold(1.0, f64::min)
}

/// What a process may use, and what it has resident before its first task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Process {
    /// Part of its memory limit that it may use.
    pub budget_fraction: f64,
    /// Resident bytes of a warmed process.
    pub baseline_bytes: u64,
}

impl Process {
    /// One of its own, of which `recorded` bytes were resident when the operators were recorded: it
    /// may use all of its limit.
    pub fn plain(recorded: Option<u64>) -> Process {
        Process { budget_fraction: 1.0, baseline_bytes: recorded.unwrap_or(PYTHON_BYTES) }
    }

    /// A worker of Dask, which may use what Dask's defaults let it and has Dask itself in memory
    /// too.
    pub fn dask_worker(recorded: Option<u64>) -> Process {
        let Process { baseline_bytes, .. } = Process::plain(recorded);
        Process {
            budget_fraction: budget_fraction(Some(SPILL), Some(PAUSE)),
            baseline_bytes: baseline_bytes.saturating_add(DASK_WORKER_BYTES),
        }
    }
}

/// The most that a recorded process had resident before one of a model's operators ran.
pub fn recorded_bytes(model: &Model) -> Option<u64> {
    model.laws.iter().filter_map(|law| law.baseline.as_ref()?.resident_bytes).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_of_dask_may_use_less_and_hold_more() {
        let (plain, worker) = (Process::plain(Some(60)), Process::dask_worker(Some(60)));
        assert_eq!((plain.budget_fraction, plain.baseline_bytes), (1.0, 60));
        assert_eq!((worker.budget_fraction, worker.baseline_bytes), (SPILL, 60 + DASK_WORKER_BYTES));
        assert_eq!(Process::plain(None).baseline_bytes, PYTHON_BYTES);
        assert_eq!(Process::dask_worker(Some(u64::MAX)).baseline_bytes, u64::MAX);
    }
}
