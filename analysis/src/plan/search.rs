//! The search: grids from the fastest to the slowest until one fits.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::dask::{self, WorkerBytes};
use super::grid::{self, Grid};
use super::source::Frontier;
use super::{Bound, Choice, Minimise, Plan, PlanError, Refusal, Request, device, why};
use crate::TaskBytes;

pub(super) type Law<'a> = &'a dyn Fn(&[u64]) -> Result<TaskBytes, crate::Error>;

/// Grids whose times differ by less than this are equally fast as far as anybody can tell; the
/// one that needs the least memory is taken.
pub(crate) const SAME_TIME: f64 = 1.03;

/// Grids whose workers' peaks differ by less than this need the same; the fastest is taken.
const SAME_BYTES: f64 = 1.03;

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
    cell_seconds: f64,
    ranked: Vec<Timed>,
}

impl<'a> Search<'a> {
    /// Grids of chunks that are whole chunks of a store where `aligned` gives these.
    ///
    /// # Errors
    /// No grid with few enough chunks, or a law that fails for every block.
    pub(super) fn new(
        request: &'a Request,
        law: Law<'a>,
        aligned: Option<&[u64]>,
    ) -> Result<Self, PlanError> {
        let grids = grid::candidates(&request.shape, &request.halo, &request.whole_axes, aligned);
        let cell_seconds = cell_seconds(&grids, law)?.max(LEAST_CELL_SECONDS);
        let mut search = Search { request, law, cell_seconds, ranked: Vec::new() };
        search.ranked = grids.into_iter().map(|grid| search.timed(grid)).collect();
        search.ranked.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Ok(search)
    }

    fn timed(&self, grid: Grid) -> Timed {
        Timed { seconds: dask::seconds(self.request, &grid, self.cell_seconds), grid }
    }

    /// The grid under the budget that is best by what the request minimises, `None` where none is under it.
    pub(super) fn plan(&self) -> Option<Plan> {
        match self.request.minimise {
            Minimise::Time => self.fastest(),
            Minimise::Memory => {
                let enough = self.part(&self.least()?) * SAME_BYTES;
                let mut fitting = self.ranked.iter().filter_map(|timed| self.weighed(timed));
                Some(self.describe(&fitting.find(|weighed| self.part(weighed) <= enough)?, None))
            }
            Minimise::Tasks => {
                let mut fewest: Vec<&Timed> = self.ranked.iter().collect();
                fewest.sort_by_key(|timed| timed.grid.chunks());
                Some(self.describe(&self.first(fewest.into_iter())?, None))
            }
        }
    }

    /// The first grid that fits.
    fn first<'s>(&'s self, mut grids: impl Iterator<Item = &'s Timed>) -> Option<Weighed<'s>> {
        grids.find_map(|timed| self.weighed(timed))
    }

    /// Memory of a grid that fits the budget and the device; `None` where it does not.
    fn weighed<'s>(&'s self, timed: &'s Timed) -> Option<Weighed<'s>> {
        let fits = |weighed: &Weighed| device::is_within(self.request, &weighed.worker);
        self.weigh(timed, self.request.budget_bytes()).filter(fits)
    }

    /// The fastest grid under the budget; of those as fast as anybody can tell, the one that needs least.
    fn fastest(&self) -> Option<Plan> {
        let fits = |timed| self.weighed(timed);
        let (first, fastest) =
            self.ranked.iter().enumerate().find_map(|(i, timed)| Some((i, fits(timed)?)))?;
        let as_fast = self.ranked[first..]
            .iter()
            .take_while(|timed| timed.seconds <= fastest.timed.seconds * SAME_TIME);
        let best = as_fast.filter_map(fits).min_by(|a, b| self.by_need(a, b))?;
        // The one that was skipped last tells what more memory would buy.
        let skipped = self.ranked[..first].last().and_then(|timed| self.weigh(timed, u64::MAX));
        Some(self.describe(&best, skipped.as_ref()))
    }

    /// What part it needs of the memory that there is least of.
    fn part(&self, weighed: &Weighed) -> f64 {
        device::part(self.request, &weighed.worker)
    }

    /// By that part; of two that need as much of it, the one that needs less of the host.
    fn by_need(&self, a: &Weighed, b: &Weighed) -> Ordering {
        self.part(a).total_cmp(&self.part(b)).then(a.worker.peak().cmp(&b.worker.peak()))
    }

    /// Grids under the budget of which none is better than another in time, memory and tasks together, the fastest first:
    /// `chosen`, and of every doubling of the number of chunks two.
    fn front(&self, chosen: &Weighed) -> Vec<Choice> {
        const TRIED: usize = 4;
        // Nobody waits longer for a little less memory.
        const SLOWEST: f64 = 3.0;
        let mut kinds: BTreeMap<u32, Vec<&Timed>> = BTreeMap::new();
        for timed in &self.ranked {
            let kind = kinds.entry(timed.grid.chunks().saturating_pow(2).ilog2()).or_default();
            if kind.len() < TRIED {
                kind.push(timed);
            }
        }
        let found = kinds.into_values().filter_map(|kind| self.first(kind.into_iter()));
        let mut choices: Vec<Choice> =
            found.map(|found| self.choice(&found)).chain([self.choice(chosen)]).collect();
        choices
            .sort_by(|a, b| a.predicted_seconds.total_cmp(&b.predicted_seconds).then(a.tasks.cmp(&b.tasks)));
        choices.dedup();
        let slowest = choices.first().map_or(0.0, |fastest| fastest.predicted_seconds * SLOWEST);
        let all = choices.clone();
        choices.retain(|choice| {
            choice.predicted_seconds <= slowest && !all.iter().any(|other| other.beats(choice))
        });
        choices
    }

    fn choice(&self, weighed: &Weighed) -> Choice {
        Choice {
            chunk_shape: weighed.timed.grid.chunk.clone(),
            tasks: weighed.timed.grid.chunks(),
            predicted_worker_bytes: weighed.worker.peak(),
            predicted_seconds: weighed.timed.seconds,
            predicted_device_bytes: self.request.device.map(|_| weighed.worker.device),
            fits: device::is_within(self.request, &weighed.worker),
        }
    }

    /// What some grid needs, whether it fits or not.
    ///
    /// # Errors
    /// The law has no value for its blocks.
    pub(super) fn needs(&self, grid: Grid) -> Result<Choice, PlanError> {
        let task = (self.law)(&grid.block()).map_err(PlanError::Law)?;
        let worker = WorkerBytes::of(self.request, &grid, &task, Frontier::Walked);
        let timed = self.timed(grid);
        Ok(self.choice(&Weighed { timed: &timed, task, worker }))
    }

    /// The smallest budget that some grid fits.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let least = self.least()?;
        Some(Refusal {
            budget_bytes: self.request.budget_bytes(),
            smallest_budget_bytes: least.worker.peak(),
            smallest_memory_limit_bytes: self.request.limit_for(least.worker.peak()),
            chunk_shape: least.timed.grid.chunk.clone(),
            smallest_device_limit_bytes: self.request.device.map(|_| least.worker.device),
            bound_by: Bound::of(self.request, &least.worker),
            waves: None,
            why: why::refused(self.request, &least),
        })
    }

    /// The grid that needs least of the memory that there is least of.
    fn least(&self) -> Option<Weighed<'_>> {
        let floor = |timed| Some((device::part(self.request, &self.floor(timed, u64::MAX)?.1), timed));
        let mut floors: Vec<(f64, &Timed)> = self.ranked.iter().filter_map(floor).collect();
        floors.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut least: Option<Weighed> = None;
        for (part, timed) in floors {
            // Floors ascend: from here on nothing can be better.
            if least.as_ref().is_some_and(|least| part > self.part(least)) {
                break;
            }
            let weighed = self.weigh(timed, u64::MAX);
            let all = least.into_iter().chain(weighed);
            least = all.min_by(|a, b| self.by_need(a, b));
        }
        least
    }

    /// The law's bytes for a grid and the least they make a worker need; `None` where the law
    /// fails or it is plain that `limit` bytes will not do.
    fn floor(&self, timed: &Timed, limit: u64) -> Option<(TaskBytes, WorkerBytes)> {
        if dask::least_bytes(self.request, &timed.grid) > limit {
            return None;
        }
        let task = (self.law)(&timed.grid.block()).ok()?;
        let worker = WorkerBytes::of(self.request, &timed.grid, &task, Frontier::AtLeast);
        (worker.peak() <= limit).then_some((task, worker))
    }

    /// Memory of a grid; `None` where it cannot be had or it is plain that `limit` will not do.
    fn weigh<'s>(&'s self, timed: &'s Timed, limit: u64) -> Option<Weighed<'s>> {
        let (task, _) = self.floor(timed, limit)?;
        let worker = WorkerBytes::of(self.request, &timed.grid, &task, Frontier::Walked);
        Some(Weighed { timed, task, worker })
    }

    fn describe(&self, best: &Weighed, skipped: Option<&Weighed>) -> Plan {
        let (request, grid) = (self.request, &best.timed.grid);
        Plan {
            chunks: (0..request.shape.len()).map(|axis| grid.sizes(axis)).collect(),
            chunk_shape: grid.chunk.clone(),
            tasks: grid.chunks(),
            predicted_task_bytes: dask::task_bytes(request, grid, &best.task),
            predicted_frontier_bytes: best.worker.frontier,
            predicted_worker_bytes: best.worker.peak(),
            budget_bytes: request.budget_bytes(),
            memory_limit_bytes: request.memory_limit_bytes,
            workers: request.workers,
            threads_per_worker: request.threads_per_worker,
            predicted_seconds: best.timed.seconds,
            source: request.source,
            device: device::plan(request, &best.task, &best.worker),
            bound_by: skipped.map(|skipped| Bound::of(request, &skipped.worker)),
            pareto: self.front(best),
            compare: None,
            waves: None,
            tried: Vec::new(),
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
