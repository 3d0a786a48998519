//! Chunk plans: from a law, a budget and the task graph of `map_overlap` to chunk sizes.
//!
//! Constraints: pure; reads and prints nothing; the law comes in as a closure, so any law will do.
//!
//! [`recommend`] tries every grid of ⌈n/k⌉ chunks, foretells the peak of a worker and the time
//! for each, and takes the fastest whose workers stay under the budget (DESIGN §8). The
//! operator's result is taken to be reduced or stored by the task that made it: sources and
//! halos are what a worker holds.

pub(crate) mod dask;
pub(crate) mod frontier;
pub(crate) mod grid;
mod process;
mod render;
pub(crate) mod search;
mod why;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use dask::{PAUSE, SPILL};
pub use process::{Process, recorded_bytes};
pub use render::Target;

use crate::TaskBytes;

/// What is to be computed, and on what.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The operator's name, for the sentence that explains the plan.
    pub operator: String,
    /// Shape of the whole array, in elements.
    pub shape: Vec<u64>,
    /// Bytes per element of the input.
    pub item_bytes: u64,
    /// Extra cells per face and axis that a chunk needs from its neighbours.
    pub halo: Vec<u64>,
    /// Axes that must stay in one chunk.
    pub whole_axes: Vec<usize>,
    /// Worker processes.
    pub workers: u64,
    /// Threads of each.
    pub threads_per_worker: u64,
    /// Memory limit of each worker, bytes.
    pub memory_limit_bytes: u64,
    /// Part of the limit a worker may use: [`budget_fraction`] of the framework's settings.
    pub budget_fraction: f64,
    /// Resident bytes of a warmed worker before the first task.
    pub baseline_bytes: u64,
    /// Bytes the operator allocates once per process.
    pub once_bytes: u64,
}

/// The chunks to use, what they are foretold to need, and why these. Bytes and seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Per axis, the sizes of all chunks.
    pub chunks: Vec<Vec<u64>>,
    /// The largest chunk.
    pub chunk_shape: Vec<u64>,
    /// Operator tasks: the number of chunks.
    pub tasks: u64,
    /// One task: chunk + halo and all it allocates.
    pub predicted_task_bytes: u64,
    /// Source chunks a worker holds for neighbours, beside its tasks.
    pub predicted_frontier_bytes: u64,
    /// One worker at its peak: baseline, once, tasks, held chunks, framework.
    pub predicted_worker_bytes: u64,
    /// What a worker may use.
    pub budget_bytes: u64,
    /// The limit the budget is a part of.
    pub memory_limit_bytes: u64,
    /// Worker processes.
    pub workers: u64,
    /// Threads of each.
    pub threads_per_worker: u64,
    /// From submission to result.
    pub predicted_seconds: f64,
    /// What bound the choice, in one sentence.
    pub why: String,
    #[serde(skip)]
    item_bytes: u64,
}

/// No chunking fits: the smallest budget that would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refusal {
    /// What a worker may use as things are.
    pub budget_bytes: u64,
    /// The least a worker must be allowed to use.
    pub smallest_budget_bytes: u64,
    /// The memory limit of which that budget is the usable part.
    pub smallest_memory_limit_bytes: u64,
    /// The chunks that would need it.
    pub chunk_shape: Vec<u64>,
    /// What to do, in one sentence.
    pub why: String,
}

/// What [`recommend`] answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// These chunks fit.
    Plan(Plan),
    /// None do.
    Refusal(Refusal),
}

/// A question that has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The request itself makes no sense.
    #[error("{0}")]
    Request(String),
    /// The law has no value for any chunk.
    #[error("no chunk of this array can be predicted: {0}")]
    Law(#[from] crate::Error),
}

/// The part of a worker's memory limit it may use: the lowest enabled of spill and pause, each
/// `None` when it is switched off (DESIGN §8, Budget).
pub fn budget_fraction(spill: Option<f64>, pause: Option<f64>) -> f64 {
    let usable = |fraction: &f64| *fraction > 0.0 && *fraction <= 1.0;
    spill.into_iter().chain(pause).filter(usable).fold(1.0, f64::min)
}

/// The fastest chunks under the budget, or the smallest budget that would do.
///
/// `law` gives the bytes and seconds of one call for an input of a shape: it is asked for
/// chunk + halo.
///
/// # Errors
/// A request that contradicts itself, or a law that fails for every chunk.
pub fn recommend(
    request: &Request,
    law: &dyn Fn(&[u64]) -> Result<TaskBytes, crate::Error>,
) -> Result<Answer, PlanError> {
    request.check()?;
    let search = search::Search::new(request, law)?;
    let answer = search.plan().map(Answer::Plan).or_else(|| search.refusal().map(Answer::Refusal));
    answer.ok_or_else(|| PlanError::Request("no chunk of this array can be predicted".into()))
}

/// A way to cut an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The largest chunk.
    pub chunk: Vec<u64>,
    /// The largest chunk with its halo: what a task is given.
    pub block: Vec<u64>,
    /// Number of chunks.
    pub tasks: u64,
}

/// The feasible chunk shapes of a request: those that [`recommend`] tries, or those of `chunks`.
///
/// # Errors
/// A request that contradicts itself, or a chunk that is none of its array.
pub fn chunk_shapes(request: &Request, chunks: Option<Vec<Vec<u64>>>) -> Result<Vec<Cut>, PlanError> {
    request.check()?;
    let (shape, halo) = (&request.shape, &request.halo);
    let cuts = |chunk: &Vec<u64>| {
        chunk.len() == shape.len() && chunk.iter().zip(shape).all(|(&c, &n)| (1..=n).contains(&c))
    };
    let grids = match chunks {
        None => grid::candidates(shape, halo, &request.whole_axes),
        Some(chunks) if chunks.iter().all(cuts) => {
            let grid = |chunk| grid::Grid { shape: shape.clone(), chunk, halo: halo.clone() };
            chunks.into_iter().map(grid).collect()
        }
        Some(_) => {
            let why = "a chunk has one length per axis of the array, from 1 to the axis's own";
            return Err(PlanError::Request(why.into()));
        }
    };
    let cut = |grid: grid::Grid| Cut { block: grid.block(), tasks: grid.chunks(), chunk: grid.chunk };
    Ok(grids.into_iter().map(cut).collect())
}

impl Request {
    /// What each worker may use, bytes.
    pub fn budget_bytes(&self) -> u64 {
        (self.memory_limit_bytes as f64 * self.budget_fraction) as u64
    }

    /// The memory limit of which `bytes` are the usable part.
    fn limit_for(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.budget_fraction).ceil() as u64
    }

    fn check(&self) -> Result<(), PlanError> {
        let ndim = self.shape.len();
        let wrong = |what: String| Err(PlanError::Request(what));
        if ndim == 0 || self.shape.contains(&0) {
            return wrong("the shape is empty: give a length of at least 1 for every axis".into());
        }
        if self.halo.len() != ndim {
            return wrong(format!(
                "the halo has {} axes, the shape {ndim}: give one per axis",
                self.halo.len()
            ));
        }
        if let Some(axis) = self.whole_axes.iter().find(|&&axis| axis >= ndim) {
            return wrong(format!("axis {axis} cannot stay whole: the shape has axes 0 to {}", ndim - 1));
        }
        if self.workers == 0 || self.threads_per_worker == 0 || self.item_bytes == 0 {
            return wrong("workers, threads per worker and bytes per element must be at least 1".into());
        }
        if !(self.budget_fraction > 0.0 && self.budget_fraction <= 1.0) {
            return wrong("the usable part of the memory limit must be above 0 and at most 1".into());
        }
        Ok(())
    }
}
