//! What a plan answers: chunks that fit, or the smallest budget that would do.

use schemars::JsonSchema;
use serde::Serialize;

use super::device::{Bound, DevicePlan};
use super::request::Source;
use super::slow::SlowPlan;
use super::workers::Tried;

/// The chunks to use, what they are predicted to need, and why these. Bytes and seconds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// Per axis, the sizes of all chunks.
    pub chunks: Vec<Vec<u64>>,
    /// The largest chunk.
    pub chunk_shape: Vec<u64>,
    /// Operator tasks: the number of chunks.
    pub tasks: u64,
    /// One task: chunk + halo and all it allocates.
    pub predicted_task_bytes: u64,
    /// What the law's bound for a task rests on, as `predict` has it; null where the law is a function
    /// of the caller's.
    pub confidence: Option<String>,
    /// Why it is `unverified`, as the rest of a sentence; null if it is not, and where the memory of
    /// devices rules.
    pub unverified_because: Option<String>,
    /// Source chunks a worker retains for neighbours, in addition to its tasks.
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
    /// How far, as a part of it, the computation may differ from that: as recorded calls did.
    pub seconds_spread: f64,
    /// Where tasks get their cells from.
    pub source: Source,
    /// What each worker needs of its device, if that has a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DevicePlan>,
    /// What each worker takes of slow memory, if these chunks need some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowPlan>,
    /// Which memory keeps faster chunks out; null if none does.
    pub bound_by: Option<Bound>,
    /// What bound the choice, in sentences.
    pub why: String,
    /// Choices of which none is better in time, memory and tasks together, the fastest first.
    pub pareto: Vec<Choice>,
    /// What other chunks would need, if they were to be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare: Option<Compared>,
    /// The same computation in waves, where retained chunks rule and waves are faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waves: Option<Choice>,
    /// Numbers of workers that were compared, if their number was to be chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
    /// What a task of the largest chunk is called with.
    #[serde(skip)]
    pub(super) block: Vec<u64>,
    #[serde(skip)]
    pub(super) item_bytes: u64,
    /// See [`super::time::Duration::rank`].
    #[serde(skip)]
    pub(super) rank: f64,
}

/// A way to cut the array, and what it is predicted to need. Bytes and seconds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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
    /// True if it is faster, or as fast with fewer bytes, and not worse by as much as counts in
    /// memory or tasks.
    pub(super) fn beats(&self, other: &Choice) -> bool {
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

/// What these chunks need, whether they fit or not.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// Those of [`super::BaselineChunks::Auto`].
    Auto(Choice),
    /// Those of [`super::BaselineChunks::Chunks`].
    Chunks(Choice),
}

/// No chunking fits: the smallest budget that would do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Answer {
    /// These chunks fit.
    Plan(Box<Plan>),
    /// None do.
    Refusal(Refusal),
}

impl Plan {
    pub(super) fn as_choice(&self) -> Choice {
        Choice {
            chunk_shape: self.chunk_shape.clone(),
            tasks: self.tasks,
            predicted_worker_bytes: self.predicted_worker_bytes,
            predicted_device_bytes: self.device.map(|device| device.predicted_worker_bytes),
            predicted_seconds: self.predicted_seconds,
            fits: true,
        }
    }

    pub(super) fn as_tried(&self) -> Tried {
        Tried {
            workers: self.workers,
            chunk_shape: self.chunk_shape.clone(),
            predicted_seconds: self.predicted_seconds,
            predicted_worker_bytes: self.predicted_worker_bytes,
        }
    }
}
