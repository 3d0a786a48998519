//! The search: grids from the fastest to the slowest until one fits.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Choice, Plan, Refusal};
use super::candidate::{Candidate, Law, Timed};
use super::device::{self, Bound};
use super::error::PlanError;
use super::grid::{self, Grid};
use super::request::{Minimise, Request};
use super::slow;
use super::source::Frontier;
use super::time::{Duration, SAME_TIME};
use super::why;
use super::worker_bytes::{self, WorkerBytes};
use crate::model::TaskBytes;

/// A worker that needs no more than this part of its memory has room to spare: of grids that are
/// equally fast, those that leave it come before those that do not, and less memory is no better.
const ROOMY: f64 = 0.5;

/// Grids whose workers' peaks differ by less than this need the same; the fastest is taken.
const SAME_BYTES: f64 = 1.03;

/// Seconds per cell at the least: a law without timings must not make idle workers free.
pub(crate) const LEAST_CELL_SECONDS: f64 = 5e-9;

/// Counting a grid's extra bytes may mean building the framework's graph (0.1 s each): so many are
/// counted from the fastest grid on, and then as many spread over all.
const MOST_COUNTED: usize = 100;
/// So many for the grid that a refusal names.
const COUNTED_FOR_REFUSAL: usize = 30;

/// The candidates of a request, fastest first.
pub(super) struct Search<'a> {
    request: &'a Request,
    law: Law<'a>,
    cell_seconds: f64,
    ranked: Vec<Timed>,
    /// How many more grids may have their extra bytes counted.
    left: Cell<usize>,
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
        let left = Cell::new(MOST_COUNTED);
        let mut search = Search { request, law, cell_seconds, ranked: Vec::new(), left };
        search.ranked = grids.into_iter().map(|grid| search.timed(grid)).collect();
        search.ranked.sort_by(|a, b| a.rank.total_cmp(&b.rank));
        Ok(search)
    }

    fn timed(&self, grid: Grid) -> Timed {
        let duration = Duration::of(self.request, &grid, self.cell_seconds);
        Timed { rank: duration.rank(self.request.seconds_spread), duration, grid }
    }

    /// The grid under the budget that is best by what the request minimises, `None` where none is
    /// under it.
    pub(super) fn plan(&self) -> Option<Plan> {
        match self.request.minimise {
            Minimise::Time => self.fastest().or_else(|| self.spread()),
            Minimise::Memory => {
                let enough = self.part(&self.least(MOST_COUNTED)?) * SAME_BYTES;
                self.left.set(MOST_COUNTED);
                let fits = |timed: &&Timed| {
                    self.fitting(timed).is_some_and(|candidate| self.part(&candidate) <= enough)
                };
                let fitting: Vec<&Timed> = self.ranked.iter().filter(fits).collect();
                let most = fitting.first()?.rank * SAME_TIME;
                let as_fast = fitting.into_iter().filter(|timed| timed.rank <= most);
                Some(self.describe(&self.easiest(by_chunks(as_fast))?, None))
            }
            Minimise::Tasks => {
                let fewest = self.first(by_chunks(&self.ranked).into_iter())?;
                Some(self.describe(&fewest, None))
            }
        }
    }

    /// The first grid that fits.
    fn first<'s>(&'s self, mut grids: impl Iterator<Item = &'s Timed>) -> Option<Candidate<'s>> {
        grids.find_map(|timed| self.fitting(timed))
    }

    /// Memory of a grid that fits the budget and the device; `None` where it does not.
    fn fitting<'s>(&'s self, timed: &'s Timed) -> Option<Candidate<'s>> {
        self.within(timed, self.request.budget_bytes())
    }

    /// The same of a grid that fits so many bytes and the device.
    fn within<'s>(&'s self, timed: &'s Timed, limit: u64) -> Option<Candidate<'s>> {
        let fits = |candidate: &Candidate| device::is_within(self.request, &candidate.worker, limit);
        self.candidate(timed, limit).filter(fits)
    }

    /// The fastest grid under the budget; of those that are as fast within the accuracy of the
    /// estimate, the easiest.
    fn fastest(&self) -> Option<Plan> {
        let fits = |timed| self.fitting(timed);
        let (first, fastest) =
            self.ranked.iter().enumerate().find_map(|(i, timed)| Some((i, fits(timed)?)))?;
        let as_fast =
            self.ranked[first..].iter().take_while(|timed| timed.rank <= fastest.timed.rank * SAME_TIME);
        let best = self.easiest(by_chunks(as_fast))?;
        // The one that was skipped last shows what more memory would buy.
        let as_fast = |timed: &&Timed| timed.rank <= best.timed.rank;
        let skipped = self.ranked[..first].iter().rev().find(as_fast);
        let skipped = skipped.and_then(|timed| self.candidate(timed, u64::MAX));
        Some(self.describe(&best, skipped.as_ref()))
    }

    /// The fastest grid that needs slow memory, if it is faster than `without`, the best plan that needs
    /// none, by more than counts, and even where moves take longer than most do.
    pub(super) fn in_slow_memory(&self, without: Option<&Plan>) -> Option<Plan> {
        let (request, memory) = (self.request, self.request.slow?);
        self.left.set(MOST_COUNTED);
        let moving = |timed: &Timed, worker: &WorkerBytes| {
            memory.seconds(request, &timed.grid, worker) * memory.cautious()
        };
        let most = request.budget_bytes().saturating_add(memory.limit_bytes);
        let most_seconds = without.map_or(f64::INFINITY, |plan| plan.predicted_seconds);
        let mut least = without.map_or(f64::INFINITY, |plan| plan.rank / SAME_TIME);
        let (mut best, mut skipped, mut last): (Option<Candidate>, _, _) = (None, None, None);
        for timed in &self.ranked {
            // From here on computing alone takes longer.
            if timed.rank >= least {
                break;
            }
            let fits = |worker: &WorkerBytes| worker.peak() <= request.room_bytes(worker);
            let Some((_, floor)) = self.floor(timed, most).filter(|(_, floor)| fits(floor)) else {
                last = Some(timed);
                continue;
            };
            if timed.rank + moving(timed, &floor) >= least {
                continue;
            }
            let Some(candidate) = self.within(timed, most).filter(|candidate| fits(&candidate.worker)) else {
                last = Some(timed);
                continue;
            };
            let seconds = moving(timed, &candidate.worker);
            let is_faster = timed.duration.seconds() + seconds < most_seconds;
            if slow::excess(request, &candidate.worker) > 0 && is_faster && timed.rank + seconds < least {
                least = timed.rank + seconds;
                (best, skipped) = (Some(candidate), last);
            }
        }
        let best = best?;
        let best = Candidate { timed: &self.with_moves(best.timed, &best.worker), ..best };
        let skipped = skipped.and_then(|timed| self.candidate(timed, u64::MAX));
        let said = memory.plan(request, &best, without.map(|plan| plan.predicted_seconds));
        let plan = self.describe(&best, skipped.as_ref());
        Some(Plan { why: plan.why + &said.why(), slow: Some(said), ..plan })
    }

    /// The same with the time that moves to slow memory take.
    fn with_moves(&self, timed: &Timed, worker: &WorkerBytes) -> Timed {
        let grid = timed.grid.clone();
        let seconds = self.request.slow.map_or(0.0, |slow| slow.seconds(self.request, &grid, worker));
        Timed { duration: timed.duration.plus(Duration::of_cells(seconds)), rank: timed.rank + seconds, grid }
    }

    /// Where extra bytes exclude all grids that were counted, the first of some spread over all.
    fn spread(&self) -> Option<Plan> {
        self.request.extra.as_ref()?;
        self.left.set(MOST_COUNTED);
        let found = self.first(self.ranked.iter().step_by(spacing(self.ranked.len(), MOST_COUNTED)))?;
        Some(self.describe(&found, None))
    }

    /// The easiest of grids with fewer chunks before those with more: one that leaves a worker room
    /// before one that does not, and fewer chunks before more. Of those that are alike in both and
    /// need the same, the fastest, cut along its first axes, whose cells lie far apart.
    fn easiest<'s>(&'s self, grids: Vec<&'s Timed>) -> Option<Candidate<'s>> {
        let mut alike: Vec<Candidate> = Vec::new();
        let ease = |worker: &WorkerBytes, timed: &Timed| (!self.is_roomy(worker), timed.grid.chunks());
        let budget = self.request.budget_bytes();
        for timed in grids {
            let best = alike.first().map(|best| ease(&best.worker, best.timed));
            if best.is_some_and(|best| best < (false, timed.grid.chunks())) {
                break;
            }
            // It needs no less than this, so that what is harder already is not counted.
            let Some((_, floor)) = self.floor(timed, budget) else { continue };
            if best.is_some_and(|best| best < ease(&floor, timed)) {
                continue;
            }
            let Some(candidate) = self.fitting(timed) else { continue };
            match best.map_or(Ordering::Less, |best| ease(&candidate.worker, timed).cmp(&best)) {
                Ordering::Less => alike = vec![candidate],
                Ordering::Equal => alike.push(candidate),
                Ordering::Greater => {}
            }
        }
        let least = alike.iter().map(|candidate| self.part(candidate)).fold(f64::INFINITY, f64::min);
        alike.retain(|candidate| self.part(candidate) <= least * SAME_BYTES);
        let fastest = alike.iter().map(|candidate| candidate.timed.rank).fold(f64::INFINITY, f64::min);
        // What is equal may differ in the last digit.
        alike.retain(|candidate| candidate.timed.rank <= fastest * (1.0 + 1e-9));
        alike.into_iter().min_by(|a, b| a.timed.grid.chunk.cmp(&b.timed.grid.chunk))
    }

    /// It leaves a worker room to spare.
    fn is_roomy(&self, worker: &WorkerBytes) -> bool {
        device::part(self.request, worker) <= ROOMY
    }

    /// What part it needs of the memory that there is least of.
    fn part(&self, candidate: &Candidate) -> f64 {
        device::part(self.request, &candidate.worker)
    }

    /// By that part; of two that need as much of it, the one that needs less of the host.
    fn by_need(&self, a: &Candidate, b: &Candidate) -> Ordering {
        self.part(a).total_cmp(&self.part(b)).then(a.worker.peak().cmp(&b.worker.peak()))
    }

    /// Grids under the budget of which none is better than another in time, memory and tasks
    /// together, the fastest first: `chosen`, if it is one, and of every doubling of the number of
    /// chunks two.
    fn front(&self, chosen: &Candidate) -> Vec<Choice> {
        // A walk over a grid's tasks takes a millisecond, counting extra bytes a hundred: so many of
        // each kind, the fastest.
        let most_tried = if self.request.extra.is_some() { 1 } else { 12 };
        // A little less memory is not worth a longer wait.
        const SLOWEST: f64 = 3.0;
        let kind = |chunks: u64| chunks.saturating_pow(2).ilog2();
        let mut kinds: BTreeMap<u32, Vec<&Timed>> = BTreeMap::new();
        let mut fastest: Vec<&Timed> = self.ranked.iter().collect();
        fastest.sort_by(|a, b| a.duration.seconds().total_cmp(&b.duration.seconds()));
        for timed in fastest {
            let tried = kinds.entry(kind(timed.grid.chunks())).or_default();
            if tried.len() < most_tried {
                tried.push(timed);
            }
        }
        let chosen = self.choice(chosen);
        let found = kinds.into_values().flatten().filter_map(|timed| self.fitting(timed));
        let found = found.map(|found| self.choice(&found)).filter(|choice| *choice != chosen);
        let mut choices: Vec<Choice> = found.collect();
        choices.push(chosen.clone());
        choices
            .sort_by(|a, b| a.predicted_seconds.total_cmp(&b.predicted_seconds).then(a.tasks.cmp(&b.tasks)));
        choices.dedup();
        let slowest = choices.first().map_or(0.0, |fastest| fastest.predicted_seconds * SLOWEST);
        let all = choices.clone();
        let mut listed = BTreeSet::new();
        choices.retain(|choice| {
            let is_good = choice.predicted_seconds <= slowest && !all.iter().any(|other| other.beats(choice));
            is_good && (*choice == chosen || listed.insert(kind(choice.tasks)))
        });
        choices
    }

    fn choice(&self, candidate: &Candidate) -> Choice {
        Choice {
            chunk_shape: candidate.timed.grid.chunk.clone(),
            tasks: candidate.timed.grid.chunks(),
            predicted_worker_bytes: candidate.worker.peak(),
            predicted_seconds: candidate.timed.duration.seconds(),
            predicted_device_bytes: self.request.device.map(|_| candidate.worker.device),
            fits: device::is_within(
                self.request,
                &candidate.worker,
                self.request.room_bytes(&candidate.worker),
            ),
        }
    }

    /// What some grid needs, whether it fits or not.
    ///
    /// # Errors
    /// The law has no value for its blocks.
    pub(super) fn needs(&self, grid: Grid) -> Result<Choice, PlanError> {
        let task = (self.law)(&grid.block()).map_err(PlanError::Law)?;
        let worker = WorkerBytes::of(self.request, &grid, &task, Frontier::Walked);
        let timed = self.with_moves(&self.timed(grid), &worker);
        Ok(self.choice(&Candidate { timed: &timed, task, worker }))
    }

    /// The smallest budget that some grid fits.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let least = self.least(COUNTED_FOR_REFUSAL)?;
        Some(Refusal {
            budget_bytes: self.request.budget_bytes(),
            smallest_budget_bytes: self.request.least_budget(&least.worker),
            smallest_memory_limit_bytes: self.request.least_limit(&least.worker),
            chunk_shape: least.timed.grid.chunk.clone(),
            smallest_device_limit_bytes: self.request.device.map(|_| least.worker.device),
            bound_by: Bound::of(self.request, &least.worker),
            waves: None,
            why: why::refused(self.request, &least),
        })
    }

    /// The grid that needs least of the memory that there is least of.
    ///
    /// `counted`: of how many grids extra bytes are counted.
    fn least(&self, counted: usize) -> Option<Candidate<'_>> {
        let floor = |timed| Some((device::part(self.request, &self.floor(timed, u64::MAX)?.1), timed));
        let mut floors: Vec<(f64, &Timed)> = self.ranked.iter().filter_map(floor).collect();
        floors.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.left.set(MOST_COUNTED);
        let step = if self.request.extra.is_some() { spacing(floors.len(), counted) } else { 1 };
        let mut least: Option<Candidate> = None;
        for (part, timed) in floors.into_iter().step_by(step) {
            // Floors ascend: from here on nothing can be better.
            if least.as_ref().is_some_and(|least| part > self.part(least)) {
                break;
            }
            let candidate = self.candidate(timed, u64::MAX);
            let all = least.into_iter().chain(candidate);
            least = all.min_by(|a, b| self.by_need(a, b));
        }
        least
    }

    /// The law's bytes for a grid and the least they make a worker need; `None` where the law
    /// fails or it is plain that `limit` bytes will not do.
    fn floor(&self, timed: &Timed, limit: u64) -> Option<(TaskBytes, WorkerBytes)> {
        if worker_bytes::least_bytes(self.request, &timed.grid) > limit {
            return None;
        }
        let task = (self.law)(&timed.grid.block()).ok()?;
        let worker = WorkerBytes::of(self.request, &timed.grid, &task, Frontier::AtLeast);
        (worker.peak() <= limit).then_some((task, worker))
    }

    /// Memory of a grid; `None` where it cannot be had or it is plain that `limit` will not do.
    fn candidate<'s>(&'s self, timed: &'s Timed, limit: u64) -> Option<Candidate<'s>> {
        let (task, _) = self.floor(timed, limit)?;
        let mut worker = WorkerBytes::of(self.request, &timed.grid, &task, Frontier::Walked);
        if let Some(extra) = self.request.extra.as_ref().filter(|_| worker.peak() <= limit) {
            let task_bytes = worker_bytes::task_bytes(self.request, &timed.grid, &task);
            worker.extra = extra.bytes(&timed.grid, task_bytes, &worker, &self.left)?;
        }
        Some(Candidate { timed, task, worker })
    }

    fn describe(&self, best: &Candidate, skipped: Option<&Candidate>) -> Plan {
        let (request, grid) = (self.request, &best.timed.grid);
        let extra = best.worker.extra.div_ceil(request.threads_per_worker.max(1));
        Plan {
            chunks: (0..request.shape.len()).map(|axis| grid.sizes(axis)).collect(),
            chunk_shape: grid.chunk.clone(),
            tasks: grid.chunks(),
            predicted_task_bytes: worker_bytes::task_bytes(request, grid, &best.task).saturating_add(extra),
            confidence: None,
            unverified_because: None,
            predicted_frontier_bytes: best.worker.frontier,
            predicted_worker_bytes: best.worker.peak(),
            budget_bytes: request.budget_bytes(),
            memory_limit_bytes: request.memory_limit_bytes,
            workers: request.workers,
            threads_per_worker: request.threads_per_worker,
            predicted_seconds: best.timed.duration.seconds(),
            seconds_spread: request.seconds_spread,
            source: request.source,
            device: device::plan(request, &best.task, &best.worker),
            slow: None,
            bound_by: skipped.map(|skipped| Bound::of(request, &skipped.worker)),
            pareto: self.front(best),
            compare: None,
            waves: None,
            tried: Vec::new(),
            why: why::chosen(request, best, skipped),
            block: grid.block(),
            item_bytes: request.item_bytes,
            rank: best.timed.rank,
        }
    }
}

/// Every how many grids one is counted, so that as many as are to be are spread over all.
fn spacing(grids: usize, counted: usize) -> usize {
    grids.div_ceil(counted).max(1)
}

/// Grids with fewer chunks before those with more.
fn by_chunks<'t>(grids: impl IntoIterator<Item = &'t Timed>) -> Vec<&'t Timed> {
    let mut grids: Vec<&Timed> = grids.into_iter().collect();
    grids.sort_by_key(|timed| timed.grid.chunks());
    grids
}

/// Seconds per cell in the largest block the law has a value for.
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
