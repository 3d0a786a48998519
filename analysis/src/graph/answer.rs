//! Limits that a plan of a pipeline keeps, and its answer.

use schemars::JsonSchema;
use serde::Serialize;

use super::check::Refusal;
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

/// The chunks to use for a pipeline, and what they are predicted to need. Bytes and seconds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChunkPlan {
    /// The source that the chunks are of.
    pub source: String,
    /// Per axis of it, the sizes of all chunks.
    pub chunks: Vec<Vec<u64>>,
    /// The largest chunk.
    pub chunk_shape: Vec<u64>,
    /// Tasks that run steps, those fused into one counted as one.
    pub tasks: u64,
    /// What each operator is given.
    pub operators: Vec<OperatorChunks>,
    /// The operator whose task is running when a worker has most live.
    pub set_by: String,
    /// Finished chunks that a worker retains then.
    pub predicted_frontier_bytes: u64,
    /// One worker at its peak: baseline, one-time bytes, tasks, retained chunks, framework.
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

/// What one operator is given, in the pipeline and by itself.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OperatorChunks {
    /// The step.
    pub step: String,
    /// Its operator.
    pub operator: String,
    /// The largest block it is called with, halo included: its first input.
    pub block_shape: Vec<u64>,
    /// That block and all the call allocates.
    pub task_bytes: u64,
    /// Chunks that would be fastest for this operator by itself, its input rechunked; null if none
    /// fit.
    pub separate: Option<Vec<u64>>,
}

/// What [`recommend`] answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Answer {
    /// These chunks fit.
    Plan(Box<ChunkPlan>),
    /// None do.
    Refusal(Refusal),
}
