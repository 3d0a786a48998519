//! Chunks for a whole pipeline: the fastest grid whose workers stay under their budget, and how many workers.

use serde::Serialize;

use super::check::Refusal;
use super::chunks::Whole;
use super::measure::Laws;
use super::search::{Found, Search};
use super::{Error, Graph, Libraries};
use crate::Model;
use crate::plan::workers::worthwhile;
use crate::plan::{Tried, Workers};

/// What the workers may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Memory limit of each worker, bytes.
    pub memory_limit_bytes: u64,
    /// Part of it that a worker may use: [`crate::plan::budget_fraction`].
    pub budget_fraction: f64,
    /// How many there are.
    pub workers: Workers,
    /// Threads of each.
    pub threads_per_worker: u64,
    /// Resident bytes of a warmed worker before the first task.
    pub baseline_bytes: u64,
}

/// The chunks to use for a pipeline, and what they are foretold to need. Bytes and seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChunkPlan {
    /// The source that the chunks are of.
    pub source: String,
    /// Per axis of it, the sizes of all chunks.
    pub chunks: Vec<Vec<u64>>,
    /// The largest chunk.
    pub chunk_shape: Vec<u64>,
    /// Tasks that run steps, those fused into one counted once.
    pub tasks: u64,
    /// What each operator is given.
    pub operators: Vec<OperatorChunks>,
    /// The operator whose task is running when a worker holds most.
    pub set_by: String,
    /// Finished chunks that a worker holds then.
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
    /// What the weakest of the laws used rests on.
    pub confidence: String,
    /// What bound the choice, in sentences.
    pub why: String,
    /// Numbers of workers that were compared.
    pub tried: Vec<Tried>,
}

/// What one operator is given, in the pipeline and if it were alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorChunks {
    /// The step.
    pub step: String,
    /// Its operator.
    pub operator: String,
    /// The largest block it is called with, halo included: its first input.
    pub block_shape: Vec<u64>,
    /// That block and all the call allocates.
    pub task_bytes: u64,
    /// Chunks that would be fastest for this operator alone, its input rechunked; null if none fit.
    pub alone: Option<Vec<u64>>,
}

/// What [`recommend`] answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// These chunks fit.
    Plan(Box<ChunkPlan>),
    /// None do.
    Refusal(Refusal),
}

/// One grid for the whole pipeline.
///
/// # Errors
/// A graph that is cut already or has no source with axes, a step without a law, limits that make no sense.
pub fn recommend(
    model: &Model,
    libraries: &Libraries,
    graph: &Graph,
    limits: &Limits,
) -> Result<Answer, Error> {
    check(limits)?;
    let laws = Laws::new(model, libraries);
    let whole = Whole::new(&laws, graph)?;
    let mut search = Search::new(&laws, &whole, limits);
    let found = limits.workers.found(|found: &Found| found.seconds, |workers| search.fastest(workers));
    if found.is_empty() {
        return search.refusal(limits.workers.most()).map(Answer::Refusal);
    }
    let seconds: Vec<(u64, f64)> = found.iter().map(|(workers, found)| (*workers, found.seconds)).collect();
    let chosen = worthwhile(&seconds);
    Ok(Answer::Plan(Box::new(search.describe(&found, chosen))))
}

fn check(limits: &Limits) -> Result<(), Error> {
    let wrong = |what: &str| Err(Error::Request(what.into()));
    if limits.workers == Workers::Number(0) || limits.threads_per_worker == 0 {
        return wrong("workers and threads per worker must be at least 1");
    }
    if !(limits.budget_fraction > 0.0 && limits.budget_fraction <= 1.0) {
        return wrong("the usable part of the memory limit must be above 0 and at most 1");
    }
    Ok(())
}
