//! Chunk plans: from a law, a budget and the task graph of `map_overlap` to chunk sizes.
//!
//! Constraints: pure; reads and prints nothing; the law comes in as a closure, so any law will do.
//!
//! [`recommend`] tries every grid of ⌈n/k⌉ chunks, foretells the peak of a worker and the time
//! for each, and takes the fastest whose workers stay under the budget (DESIGN §8). The
//! operator's result is taken to be reduced or stored by the task that made it: sources and
//! halos are what a worker holds.

mod compare;
pub(crate) mod dask;
mod device;
pub(crate) mod frontier;
pub(crate) mod grid;
mod longest;
mod process;
mod render;
mod request;
pub(crate) mod search;
pub(crate) mod source;
pub(crate) mod why;
pub(crate) mod workers;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use compare::{Compared, Rival};
pub use dask::{PAUSE, SPILL};
pub use device::{Bound, CONTEXT_BYTES, Device, DevicePlan};
pub use longest::{Longest, Reach, longest};
pub use process::{Process, recorded_bytes};
pub use render::Target;
pub use request::{Minimise, Request};
pub use source::Source;
pub use workers::{Tried, Workers};

use crate::TaskBytes;

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
    /// Where tasks get their cells from.
    pub source: Source,
    /// What each worker needs of its device, if that has a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DevicePlan>,
    /// Which memory keeps faster chunks out; null if none does.
    pub bound_by: Option<Bound>,
    /// What bound the choice, in sentences.
    pub why: String,
    /// Choices of which none is better in time, memory and tasks together, the fastest first.
    pub pareto: Vec<Choice>,
    /// What chunks of others would need, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare: Option<Compared>,
    /// The same computation in waves, where held chunks rule and waves are faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waves: Option<Choice>,
    /// Numbers of workers that were compared, if their number was to be chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
    #[serde(skip)]
    item_bytes: u64,
}

/// A way to cut the array, and what it is foretold to need. Bytes and seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The largest chunk.
    pub chunk_shape: Vec<u64>,
    /// Number of chunks.
    pub tasks: u64,
    /// One worker at its peak.
    pub predicted_worker_bytes: u64,
    /// Its device, if that has a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_device_bytes: Option<u64>,
    /// From submission to result, if no worker is killed.
    pub predicted_seconds: f64,
    /// Workers stay under the budget.
    pub fits: bool,
}

impl Choice {
    /// True if it is faster, or as fast with fewer bytes, and not worse by as much as counts in memory or tasks.
    fn beats(&self, other: &Choice) -> bool {
        const SAME: f64 = 1.05;
        let device = |choice: &Choice| choice.predicted_device_bytes.unwrap_or(0);
        let order = |choice: &Choice| (choice.predicted_worker_bytes, device(choice), choice.tasks);
        let faster = self.predicted_seconds.total_cmp(&other.predicted_seconds);
        faster.then(order(self).cmp(&order(other))).is_lt()
            && self.predicted_worker_bytes as f64 <= other.predicted_worker_bytes as f64 * SAME
            && device(self) as f64 <= device(other) as f64 * SAME
            && self.tasks as f64 <= other.tasks as f64 * SAME
    }
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
    /// What a worker's device must have at least, if it has a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smallest_device_limit_bytes: Option<u64>,
    /// Which memory rules.
    pub bound_by: Bound,
    /// The chunks that would need it.
    pub chunk_shape: Vec<u64>,
    /// The same computation in waves, if that fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waves: Option<Choice>,
    /// What to do, in sentences.
    pub why: String,
}

/// What [`recommend`] answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// These chunks fit.
    Plan(Box<Plan>),
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
    Law(crate::Error),
}

/// The part of a worker's memory limit it may use: the lowest enabled of spill and pause, each
/// `None` when it is switched off (DESIGN §8, Budget).
pub fn budget_fraction(spill: Option<f64>, pause: Option<f64>) -> f64 {
    let usable = |fraction: &f64| *fraction > 0.0 && *fraction <= 1.0;
    spill.into_iter().chain(pause).filter(usable).fold(1.0, f64::min)
}

/// The best chunks under the budget, or the smallest budget that would do.
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
    let alone = alone(request, law)?;
    if request.source != Source::Dask {
        return Ok(alone);
    }
    let in_waves = || match self::alone(&Request { source: Source::Waves, ..request.clone() }, law) {
        Ok(Answer::Plan(plan)) => Some(plan.as_choice()),
        _ => None,
    };
    Ok(match alone {
        Answer::Plan(plan) if plan.predicted_frontier_bytes > plan.predicted_task_bytes => {
            let faster = in_waves().filter(|waves| waves.predicted_seconds < plan.predicted_seconds);
            Answer::Plan(Box::new(plan.with_waves(faster)))
        }
        Answer::Refusal(refusal) => Answer::Refusal(refusal.with_waves(in_waves())),
        plan => plan,
    })
}

/// Chunks for a source as the request has it, or what they would need.
fn alone(request: &Request, law: search::Law) -> Result<Answer, PlanError> {
    if let Some(plan) = planned(request, law)? {
        return Ok(Answer::Plan(Box::new(plan)));
    }
    let aligned = request.storage_chunks.as_deref().filter(|_| request.aligned);
    let refusal = search::Search::new(request, law, aligned)?.refusal();
    let unknown = || PlanError::Request("no chunk of this array can be predicted".into());
    refusal.map(Answer::Refusal).ok_or_else(unknown)
}

/// Chunks that fit: of whole chunks of the store if some of these do, or if they must be.
fn planned(request: &Request, law: search::Law) -> Result<Option<Plan>, PlanError> {
    let stored = request.storage_chunks.as_deref();
    let aligned = search::Search::new(request, law, stored)?.plan();
    if aligned.is_some() || stored.is_none() || request.aligned {
        return Ok(aligned);
    }
    Ok(search::Search::new(request, law, None)?.plan().map(Plan::unaligned))
}

/// The same, and how many workers are worth having; the number in the request does not matter.
///
/// # Errors
/// As [`recommend`].
pub fn recommend_workers(
    request: &Request,
    law: &dyn Fn(&[u64]) -> Result<TaskBytes, crate::Error>,
) -> Result<Answer, PlanError> {
    request.check()?;
    let with = |workers| recommend(&Request { workers, ..request.clone() }, law);
    let found = Workers::Auto.found(
        |plan: &Plan| plan.predicted_seconds,
        |workers| planned(&Request { workers, ..request.clone() }, law).ok().flatten(),
    );
    let seconds: Vec<(u64, f64)> =
        found.iter().map(|(workers, plan)| (*workers, plan.predicted_seconds)).collect();
    let chosen = workers::worthwhile(&seconds);
    let Some((number, plan)) = found.get(chosen) else { return with(Workers::Auto.most()) };
    let why = format!("{}{}", plan.why.trim_end_matches('.'), workers::why(&seconds, chosen));
    let tried = found.iter().map(|(_, plan)| plan.as_tried()).collect();
    Ok(match with(*number)? {
        Answer::Plan(plan) => Answer::Plan(Box::new(Plan { tried, why, ..*plan })),
        refusal => refusal,
    })
}

impl Plan {
    fn as_choice(&self) -> Choice {
        Choice {
            chunk_shape: self.chunk_shape.clone(),
            tasks: self.tasks,
            predicted_worker_bytes: self.predicted_worker_bytes,
            predicted_device_bytes: self.device.map(|device| device.predicted_worker_bytes),
            predicted_seconds: self.predicted_seconds,
            fits: true,
        }
    }

    fn as_tried(&self) -> Tried {
        Tried {
            workers: self.workers,
            chunk_shape: self.chunk_shape.clone(),
            predicted_seconds: self.predicted_seconds,
            predicted_worker_bytes: self.predicted_worker_bytes,
        }
    }

    fn with_waves(self, waves: Option<Choice>) -> Plan {
        let why = waves.as_ref().map_or(String::new(), |waves| why::in_waves(waves, "faster"));
        Plan { why: self.why.clone() + &why, waves, ..self }
    }

    fn unaligned(self) -> Plan {
        Plan { why: self.why.clone() + " No chunks made of whole chunks of the store fit.", ..self }
    }
}

impl Refusal {
    fn with_waves(self, waves: Option<Choice>) -> Refusal {
        let why = waves.as_ref().map_or(String::new(), |waves| why::in_waves(waves, "within the budget"));
        Refusal { why: self.why.clone() + &why, waves, ..self }
    }
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
        None => grid::candidates(shape, halo, &request.whole_axes, None),
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
