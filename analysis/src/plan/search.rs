//! The search: grids from the fastest to the slowest until one fits.

use super::dask::{self, WorkerBytes};
use super::grid::{self, Grid};
use super::{Plan, PlanError, Refusal, Request, why};
use crate::TaskBytes;

pub(super) type Law<'a> = &'a dyn Fn(&[u64]) -> Result<TaskBytes, crate::Error>;

/// Grids whose times differ by less than this are equally fast as far as anybody can tell; the
/// one that needs the least memory is taken.
pub(crate) const SAME_TIME: f64 = 1.03;

/// Seconds per cell at the least: a law without timings must not make idle workers free.
pub(crate) const LEAST_CELL_SECONDS: f64 = 5e-9;

/// A grid with its time.
pub(super) struct Timed {
    pub(super) grid: Grid,
    pub(super) seconds: f64,
}

/// A grid with its memory.
pub(super) struct Weighed<'a> {
    pub(super) timed: &'a Timed,
    pub(super) task: TaskBytes,
    pub(super) worker: WorkerBytes,
}

/// The candidates of a request, fastest first.
pub(super) struct Search<'a> {
    request: &'a Request,
    law: Law<'a>,
    ranked: Vec<Timed>,
}

impl<'a> Search<'a> {
    /// # Errors
    /// No grid with few enough chunks, or a law that fails for every block.
    pub(super) fn new(request: &'a Request, law: Law<'a>) -> Result<Self, PlanError> {
        let grids = grid::candidates(&request.shape, &request.halo, &request.whole_axes);
        let cell_seconds = cell_seconds(&grids, law)?.max(LEAST_CELL_SECONDS);
        let timed = |grid| Timed { seconds: dask::seconds(request, &grid, cell_seconds), grid };
        let mut ranked: Vec<Timed> = grids.into_iter().map(timed).collect();
        ranked.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Ok(Search { request, law, ranked })
    }

    /// The fastest grid under the budget, `None` where there is none.
    pub(super) fn plan(&self) -> Option<Plan> {
        let budget = self.request.budget_bytes();
        let fits = |timed| self.weigh(timed, budget).filter(|weighed| weighed.worker.peak() <= budget);
        let (first, fastest) =
            self.ranked.iter().enumerate().find_map(|(i, timed)| Some((i, fits(timed)?)))?;
        let as_fast = self.ranked[first..]
            .iter()
            .take_while(|timed| timed.seconds <= fastest.timed.seconds * SAME_TIME);
        let best = as_fast.filter_map(fits).min_by_key(|weighed| weighed.worker.peak())?;
        // The one that was skipped last tells what more memory would buy.
        let skipped = self.ranked[..first].last().and_then(|timed| self.weigh(timed, u64::MAX));
        Some(self.describe(&best, skipped.as_ref()))
    }

    /// The smallest budget that some grid fits.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let floor = |timed| Some((self.floor(timed, u64::MAX)?.1.peak(), timed));
        let mut floors: Vec<(u64, &Timed)> = self.ranked.iter().filter_map(floor).collect();
        floors.sort_by_key(|&(bytes, _)| bytes);
        let mut least: Option<Weighed> = None;
        for (bytes, timed) in floors {
            // Floors ascend: from here on nothing can be better.
            if least.as_ref().is_some_and(|least| bytes >= least.worker.peak()) {
                break;
            }
            let weighed = self.weigh(timed, u64::MAX);
            least = least.into_iter().chain(weighed).min_by_key(|weighed| weighed.worker.peak());
        }
        least.map(|least| Refusal {
            budget_bytes: self.request.budget_bytes(),
            smallest_budget_bytes: least.worker.peak(),
            smallest_memory_limit_bytes: self.request.limit_for(least.worker.peak()),
            chunk_shape: least.timed.grid.chunk.clone(),
            why: why::refused(self.request, &least),
        })
    }

    /// The law's bytes for a grid and the least they make a worker need; `None` where the law
    /// fails or it is plain that `limit` bytes will not do.
    fn floor(&self, timed: &Timed, limit: u64) -> Option<(TaskBytes, WorkerBytes)> {
        if dask::least_bytes(self.request, &timed.grid) > limit {
            return None;
        }
        let task = (self.law)(&timed.grid.block()).ok()?;
        let worker = WorkerBytes::at_least(self.request, &timed.grid, &task);
        (worker.peak() <= limit).then_some((task, worker))
    }

    /// Memory of a grid; `None` where it cannot be had or it is plain that `limit` will not do.
    fn weigh<'s>(&'s self, timed: &'s Timed, limit: u64) -> Option<Weighed<'s>> {
        let (task, _) = self.floor(timed, limit)?;
        Some(Weighed { timed, task, worker: WorkerBytes::of(self.request, &timed.grid, &task) })
    }

    fn describe(&self, best: &Weighed, skipped: Option<&Weighed>) -> Plan {
        let (request, grid) = (self.request, &best.timed.grid);
        Plan {
            chunks: (0..request.shape.len()).map(|axis| grid.sizes(axis)).collect(),
            chunk_shape: grid.chunk.clone(),
            tasks: grid.chunks(),
            predicted_task_bytes: dask::task_bytes(&best.task),
            predicted_frontier_bytes: best.worker.frontier,
            predicted_worker_bytes: best.worker.peak(),
            budget_bytes: request.budget_bytes(),
            memory_limit_bytes: request.memory_limit_bytes,
            workers: request.workers,
            threads_per_worker: request.threads_per_worker,
            predicted_seconds: best.timed.seconds,
            why: why::chosen(request, best, skipped),
            item_bytes: request.item_bytes,
        }
    }
}

/// Seconds per cell in the largest block the law can tell about.
fn cell_seconds(grids: &[Grid], law: Law) -> Result<f64, PlanError> {
    let too_many = PlanError::Request(format!(
        "the array cannot be cut into {} chunks or fewer of a size worth planning",
        grid::MOST_CHUNKS
    ));
    let mut failure = too_many;
    for block in grids.iter().map(Grid::block) {
        match law(&block) {
            Ok(task) => return Ok(task.seconds / block.iter().map(|&n| n as f64).product::<f64>()),
            Err(error) => failure = PlanError::Law(error),
        }
    }
    Err(failure)
}
