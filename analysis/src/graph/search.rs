//! Grids for a pipeline from the fastest to the slowest until one fits.

use super::answer::{ChunkPlan, Limits, OperatorChunks};
use super::check::Refusal;
use super::chunks::Whole;
use super::chunks::expand::tasks;
use super::measure::Laws;
use super::walk::walk;
use super::{Array, Error, Executor, Work};
use crate::model::TaskBytes;
use crate::plan::frontier::MOST_WALKED;
use crate::plan::grid::{Grid, candidates};
use crate::plan::search::LEAST_CELL_SECONDS;
use crate::plan::source::share;
use crate::plan::time::{Duration, SAME_TIME};
use crate::plan::why::what_helps;
use crate::plan::worker_bytes::FRAMEWORK_BYTES;
use crate::plan::workers::why;
use crate::plan::{self, Request, Tried, Workers};
use crate::shape::joined;
use crate::units::{AtLeast, Bytes};

/// A grid with its time and memory for some number of workers.
pub(super) struct Found {
    grid: usize,
    pub(super) seconds: f64,
    memory: Memory,
}

/// One worker at its peak.
#[derive(Clone, Copy)]
struct Memory {
    worker: u64,
    retained: u64,
    /// The step whose task began then.
    step: usize,
}

/// What a single worker would retain, walking a grid's tasks.
struct Walked {
    tasks: u64,
    /// Moments that no other exceeds in what runs and in what is retained.
    moments: Vec<Memory>,
    /// The largest finished chunk: it may be on its way from another worker.
    largest: u64,
}

pub(super) struct Search<'a> {
    laws: &'a Laws<'a>,
    whole: &'a Whole<'a>,
    limits: &'a Limits,
    grids: Vec<Grid>,
    walked: Vec<Option<Walked>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(laws: &'a Laws<'a>, whole: &'a Whole<'a>, limits: &'a Limits) -> Self {
        let mut grids = candidates(whole.shape(), &whole.most_halo(), &whole.whole_axes(), None);
        grids.retain(|grid| grid.chunks() <= MOST_WALKED);
        let walked = grids.iter().map(|_| None).collect();
        Search { laws, whole, limits, grids, walked }
    }

    fn budget(&self) -> u64 {
        (self.limits.memory_limit_bytes as f64 * self.limits.budget_fraction) as u64
    }

    fn fixed(&self) -> u64 {
        let Limits { baseline_bytes, .. } = *self.limits;
        baseline_bytes.saturating_add(self.laws.one_time_bytes()).saturating_add(FRAMEWORK_BYTES)
    }

    /// The fastest grid under the budget; of those that are as fast within the accuracy of the
    /// estimate, one with the fewest chunks, each of which costs a task for every step, that needs
    /// least.
    pub(super) fn fastest(&mut self, workers: u64) -> Option<Found> {
        let spread = self.laws.seconds_spread();
        let mut ranked: Vec<(f64, usize)> =
            (0..self.grids.len()).map(|at| (self.duration(at, workers).rank(spread), at)).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut most = f64::INFINITY;
        let mut found: Vec<(usize, Memory)> = Vec::new();
        for (rank, at) in ranked {
            if rank > most {
                break;
            }
            let fits = self.floor(at) <= self.budget();
            let memory = fits.then(|| self.memory(at, workers).ok()).flatten();
            if let Some(memory) = memory.filter(|memory| memory.worker <= self.budget()) {
                most = most.min(rank * SAME_TIME);
                found.push((at, memory));
            }
        }
        let ease = |(at, memory): &(usize, Memory)| {
            let grid = &self.grids[*at];
            (grid.chunks(), memory.worker, grid.chunk.clone())
        };
        let (grid, memory) = found.into_iter().min_by_key(ease)?;
        Some(Found { grid, seconds: self.duration(grid, workers).seconds(), memory })
    }

    /// The smallest budget that some grid fits.
    pub(super) fn refusal(&mut self, workers: u64) -> Result<Refusal, Error> {
        let mut floors: Vec<(u64, usize)> = (0..self.grids.len()).map(|at| (self.floor(at), at)).collect();
        floors.sort_unstable();
        let mut least: Option<(Memory, usize)> = None;
        for (floor, at) in floors {
            // Floors ascend: from here on nothing can be better.
            if least.is_some_and(|(least, _)| floor >= least.worker) {
                break;
            }
            let Ok(memory) = self.memory(at, workers) else { continue };
            if least.is_none_or(|(least, _)| memory.worker < least.worker) {
                least = Some((memory, at));
            }
        }
        let nothing = || Error::Request("no chunk of this pipeline can be predicted".into());
        let (memory, at) = least.ok_or_else(nothing)?;
        let limit = (memory.worker as f64 / self.limits.budget_fraction).ceil() as u64;
        Ok(Refusal {
            budget_bytes: self.budget(),
            smallest_budget_bytes: memory.worker,
            smallest_memory_limit_bytes: limit,
            why: format!(
                "No chunking of {} into at most {MOST_WALKED} chunks fits a budget of {}: chunks of {} need the \
                 least, {}, of which {} are finished chunks retained while {} runs; {}.",
                joined(self.whole.shape()),
                Bytes(self.budget()),
                joined(&self.grids[at].chunk),
                AtLeast(memory.worker),
                AtLeast(memory.retained),
                self.whole.graph.nodes[memory.step].operator(),
                what_helps(limit, self.limits.threads_per_worker),
            ),
        })
    }

    /// From submission to result: the sum over the steps, those that are fused without tasks of
    /// their own.
    fn duration(&self, at: usize, workers: u64) -> Duration {
        let grid = &self.grids[at];
        let slots = workers.saturating_mul(self.limits.threads_per_worker);
        let step = |node: usize| {
            let Some((request, own)) = self.separate(node, grid, workers) else {
                return Duration::default();
            };
            let elements = request.shape.iter().map(|&n| n as f64).product::<f64>();
            let cell = (self.whole.tasks[node].seconds / elements).max(LEAST_CELL_SECONDS);
            let reads = self.whole.graph.nodes[node].inputs.iter().any(|input| input.node == self.whole.base);
            if reads || self.whole.overlaps(node, grid) {
                Duration::of(&request, &own, cell)
            } else {
                Duration::of_cells(own.work(slots).0 * cell)
            }
        };
        (0..self.whole.graph.nodes.len()).map(step).fold(Duration::default(), Duration::plus)
    }

    /// A step by itself: its first input, cut as the grid cuts it. `None`: it takes in no array
    /// with axes.
    fn separate(&self, node: usize, grid: &Grid, workers: u64) -> Option<(Request, Grid)> {
        let step = &self.whole.graph.nodes[node];
        let array = self.whole.input(node, 0)?;
        if array.shape.is_empty() || array.shape.contains(&0) {
            return None;
        }
        let (chunk, halo) = self.whole.cut_of_input(node, grid)?;
        let own = Grid { shape: array.shape.clone(), chunk, halo: halo.clone() };
        let request = Request {
            operator: step.operator(),
            halo,
            whole_axes: step.whole_axes.clone(),
            workers,
            threads_per_worker: self.limits.threads_per_worker,
            budget_fraction: self.limits.budget_fraction,
            baseline_bytes: self.limits.baseline_bytes,
            one_time_bytes: self.laws.one_time_bytes(),
            seconds_spread: self.laws.seconds_spread(),
            ..Request::new(array.shape.clone(), array.item_bytes(), self.limits.memory_limit_bytes)
        };
        Some((request, own))
    }

    /// What a worker needs at least with a grid: the largest task of a single step. Where a law has
    /// no value, no memory would do.
    fn floor(&self, at: usize) -> u64 {
        let step = |node: usize| match self.whole.graph.nodes[node].work {
            Work::Source(_) => 0,
            _ => self.task_bytes(node, &self.grids[at]).unwrap_or(u64::MAX),
        };
        let most = (0..self.whole.graph.nodes.len()).map(step).max().unwrap_or(0);
        most.saturating_add(self.fixed())
    }

    /// The largest block that a step is called with, and all that the call allocates.
    fn task_bytes(&self, node: usize, grid: &Grid) -> Result<u64, Error> {
        let blocks = self.whole.largest_blocks(node, grid);
        let taken = blocks.iter().map(Array::bytes).fold(0, u64::saturating_add);
        Ok(self.whole.measure(node, blocks)?.task.upper.saturating_add(taken))
    }

    /// One worker at its peak. What is retained is as much as a single one would retain, up to some
    /// number of workers; while a chunk moves between workers both have it ([`crate::plan`]), and a
    /// worker has what its only task took in for a while longer.
    fn memory(&mut self, at: usize, workers: u64) -> Result<Memory, Error> {
        if self.walked[at].is_none() {
            self.walked[at] = Some(self.walk(at)?);
        }
        let Some(walked) = &self.walked[at] else {
            return Err(Error::Request("the grid was not walked".into()));
        };
        let moving = if workers > 1 || walked.tasks == 1 {
            walked.largest.saturating_mul(self.limits.threads_per_worker)
        } else {
            0
        };
        let measured = |moment: &Memory| {
            let retained = share(moment.retained, walked.largest, workers).saturating_add(moving);
            Memory {
                worker: moment.worker.saturating_add(retained).saturating_add(self.fixed()),
                retained,
                ..*moment
            }
        };
        let most = walked.moments.iter().map(measured).max_by_key(|memory| memory.worker);
        most.ok_or_else(|| Error::Request("the graph has no steps".into()))
    }

    /// Runs the tasks of a grid on one worker, all at their upper bounds; [`Memory::worker`] is
    /// what runs, without what is retained.
    fn walk(&self, at: usize) -> Result<Walked, Error> {
        let tasks = tasks(self.whole, &self.grids[at])?;
        let executor = Executor::Distributed { threads: self.limits.threads_per_worker };
        let run = walk(&tasks.tasks, executor, None);
        let moment = |start: &super::walk::Start| Memory {
            worker: start.running_upper,
            retained: start.retained_upper,
            step: tasks.steps[start.task],
        };
        let mut all: Vec<Memory> = run.starts.iter().map(moment).collect();
        all.sort_by_key(|moment| std::cmp::Reverse((moment.worker, moment.retained)));
        let mut moments: Vec<Memory> = Vec::new();
        for moment in all {
            if moments.last().is_none_or(|last| moment.retained > last.retained) {
                moments.push(moment);
            }
        }
        let largest = tasks.tasks.iter().map(|task| task.left_upper).max().unwrap_or(0);
        Ok(Walked { tasks: tasks.tasks.len() as u64, moments, largest })
    }

    pub(super) fn describe(&self, found: &[(u64, Found)], chosen: usize) -> ChunkPlan {
        let (workers, best) = &found[chosen];
        let grid = &self.grids[best.grid];
        let graph = self.whole.graph;
        let tried = |(workers, found): &(u64, Found)| Tried {
            workers: *workers,
            chunk_shape: self.grids[found.grid].chunk.clone(),
            predicted_seconds: found.seconds,
            predicted_worker_bytes: found.memory.worker,
        };
        let set_by = graph.nodes[best.memory.step].operator();
        let why = format!(
            "{} chunks of {} are predicted to need {} of the {} a worker may use, {} of it finished chunks that are \
             retained while {set_by} runs{}",
            grid.chunks(),
            joined(&grid.chunk),
            AtLeast(best.memory.worker),
            Bytes(self.budget()),
            AtLeast(best.memory.retained),
            self.why_this_many(found, chosen),
        );
        ChunkPlan {
            source: graph.nodes[self.whole.base].name.clone(),
            chunks: (0..grid.shape.len()).map(|axis| grid.sizes(axis)).collect(),
            chunk_shape: grid.chunk.clone(),
            tasks: self.walked[best.grid].as_ref().map_or(0, |walked| walked.tasks),
            operators: (0..graph.nodes.len())
                .filter_map(|node| self.operator(node, grid, *workers))
                .collect(),
            set_by,
            predicted_frontier_bytes: best.memory.retained,
            predicted_worker_bytes: best.memory.worker,
            budget_bytes: self.budget(),
            memory_limit_bytes: self.limits.memory_limit_bytes,
            workers: *workers,
            threads_per_worker: self.limits.threads_per_worker,
            predicted_seconds: best.seconds,
            confidence: self.laws.confidence(),
            why,
            tried: found.iter().map(tried).collect(),
        }
    }

    /// The reason for a number of workers that was not given, and an end to the sentence.
    fn why_this_many(&self, found: &[(u64, Found)], chosen: usize) -> String {
        if self.limits.workers != Workers::Auto {
            return ".".into();
        }
        let seconds: Vec<(u64, f64)> =
            found.iter().map(|(workers, found)| (*workers, found.seconds)).collect();
        why(&seconds, chosen)
    }

    fn operator(&self, node: usize, grid: &Grid, workers: u64) -> Option<OperatorChunks> {
        let step = &self.whole.graph.nodes[node];
        let (request, _) = self.separate(node, grid, workers)?;
        let dtype = &self.whole.input(node, 0)?.dtype;
        let law = |shape: &[u64]| {
            let block = Array { shape: shape.to_vec(), dtype: dtype.clone() };
            let input = block.bytes();
            let needs = self.whole.measure(node, vec![block]);
            let task = needs.map_err(|error| crate::error::Error::Shape(error.to_string()))?.task;
            Ok(TaskBytes {
                working: task.working,
                working_upper: task.upper,
                input,
                output: task.left,
                seconds: task.seconds,
                ..TaskBytes::default()
            })
        };
        let separate = match plan::recommend(&request, &law) {
            Ok(plan::Answer::Plan(plan)) if step.inputs.len() == 1 => Some(plan.chunk_shape),
            _ => None,
        };
        Some(OperatorChunks {
            step: step.name.clone(),
            operator: step.operator(),
            block_shape: self.whole.largest_blocks(node, grid).swap_remove(0).shape,
            task_bytes: self.task_bytes(node, grid).ok()?,
            separate,
        })
    }
}
