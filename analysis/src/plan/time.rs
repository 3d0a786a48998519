//! What a grid takes from submission to result.
//!
//! The constants were measured with `examples/dask_chunks.py` (docs/results/chunks.md) on a
//! 2-core machine with dask and distributed 2026.8.

use super::grid::Grid;
use super::request::Request;

/// Tasks of a graph go through one scheduler: 1.1–1.6 ms each measured for slices of 4 MB chunks,
/// which move between workers more than once.
const TASK_SECONDS: f64 = 1.2e-3;

/// Reading a chunk, joining it with its halo and moving pieces between workers, per byte of
/// block: a first chunk of 64 MB took 0.06–0.12 s to read, as long to move, 0.03 s to join.
const BYTE_SECONDS: f64 = 3e-9;

/// Tasks that cost the scheduler less than this part of the computation do not make it slower: the
/// time of the computation is not known better than that.
const UNNOTICED: f64 = 0.2;
/// Nor do tasks that cost less than this: a job as short as that is not worth other chunks.
const UNNOTICED_SECONDS: f64 = 0.25;

/// Grids whose times differ by less than this are equally fast within the accuracy of the estimate.
pub(crate) const SAME_TIME: f64 = 1.05;

/// Seconds from submission to result.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Duration {
    /// What threads compute, read, join and move: in proportion to cells.
    cells: f64,
    /// What the scheduler does: in proportion to tasks.
    tasks: f64,
}

impl Duration {
    /// For a grid when a cell costs `cell_seconds`: the busiest thread's blocks with their halos,
    /// the bytes that are read, joined and moved, and the scheduler's work on every task.
    pub(crate) fn of(request: &Request, grid: &Grid, cell_seconds: f64) -> Duration {
        let slots = request.workers.saturating_mul(request.threads_per_worker);
        let (busiest, total) = grid.work(slots);
        let read = total * request.source.reading(request, grid);
        let moved = read * request.item_bytes as f64 / slots as f64;
        Duration {
            cells: busiest * cell_seconds + moved * BYTE_SECONDS,
            tasks: request.source.graph_tasks(request, grid) * TASK_SECONDS,
        }
    }

    /// Of a step that is a part of other steps' tasks.
    pub(crate) fn of_cells(seconds: f64) -> Duration {
        Duration { cells: seconds, tasks: 0.0 }
    }

    pub(crate) fn plus(self, other: Duration) -> Duration {
        Duration { cells: self.cells + other.cells, tasks: self.tasks + other.tasks }
    }

    /// All of it.
    pub(crate) fn seconds(self) -> f64 {
        self.cells + self.tasks
    }

    /// What grids are ordered by, if recorded times spread by this much: what the scheduler does
    /// counts only beyond what the computation may take longer. Where it does not, the order is
    /// that of cells, which is the same however fast the recorded machine was.
    pub(crate) fn rank(self, spread: f64) -> f64 {
        let slowest = self.cells * (1.0 + spread);
        let unnoticed = UNNOTICED_SECONDS.max(UNNOTICED * slowest);
        slowest + (self.tasks - unnoticed).max(0.0)
    }
}
