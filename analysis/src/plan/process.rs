//! A process that runs tasks, as far as nobody says more of it: one rule for every plan and whoever asks for it.

use super::{PAUSE, SPILL, budget_fraction};
use crate::Model;

/// What a Dask worker holds beyond the recorded process: `distributed`, its loop and logs, 28 MB measured
/// (docs/results/chunks.md), and pandas and pyarrow, which `dask.array` imports where they are installed: 109 MB.
const DASK_WORKER_BYTES: u64 = 110_000_000;
/// Resident size of Python with NumPy and SciPy, where the recording was too short to sample it.
const PYTHON_BYTES: u64 = 100_000_000;

/// What a process may use, and what it holds before its first task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Process {
    /// Part of its memory limit that it may use.
    pub budget_fraction: f64,
    /// Resident bytes, once it is warmed.
    pub baseline_bytes: u64,
}

impl Process {
    /// One of its own, of which `recorded` bytes were resident when the operators were recorded: it may use all of its
    /// limit.
    pub fn plain(recorded: Option<u64>) -> Process {
        Process { budget_fraction: 1.0, baseline_bytes: recorded.unwrap_or(PYTHON_BYTES) }
    }

    /// A worker of Dask, which may use what Dask's defaults let it (DESIGN §8, Budget) and holds Dask itself too.
    pub fn dask_worker(recorded: Option<u64>) -> Process {
        let Process { baseline_bytes, .. } = Process::plain(recorded);
        Process {
            budget_fraction: budget_fraction(Some(SPILL), Some(PAUSE)),
            baseline_bytes: baseline_bytes.saturating_add(DASK_WORKER_BYTES),
        }
    }
}

/// The most that a recorded process held before one of a model's operators ran.
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
