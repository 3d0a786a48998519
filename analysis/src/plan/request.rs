//! A request: an operator on an array, and the workers there are.

use super::error::PlanError;
use super::extra::Extra;
use super::process::Process;
use super::slow::SlowMemory;
use super::worker_bytes::WorkerBytes;
use crate::model::{Law, Seconds};

/// What a plan is to make small, as long as workers stay under their budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Minimise {
    /// Seconds from submission to result.
    #[default]
    Time,
    /// The peak of a worker.
    Memory,
    /// The number of chunks.
    Tasks,
}

/// How a task comes by its chunk and the halo around it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Chunks are tasks of one graph, and neighbours use them too (`map_overlap`): a worker retains
    /// a frontier of them.
    #[default]
    Dask,
    /// Every task reads its chunk and halo from a store: nothing is retained for neighbours.
    Storage,
    /// As many blocks at a time as there are threads, each from a graph of its own that makes the
    /// source chunks it touches anew: they stay while it runs.
    Waves,
}

/// The device of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Its memory, or the part that a worker may use; [`super::CONTEXT_BYTES`] of it are gone
    /// before the first task.
    pub limit_bytes: u64,
}

impl Device {
    /// One of which a worker may use `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Device {
        Device { limit_bytes }
    }

    /// The same, for an operator whose law says what it needs there.
    ///
    /// # Errors
    /// Its runs used a device, but there is no law of that.
    pub fn of(law: &Law, limit_bytes: u64) -> Result<Device, PlanError> {
        match &law.devices_unknown {
            None => Ok(Device::new(limit_bytes)),
            Some(reason) => Err(PlanError::Request(format!(
                "what {} needs of a device is not known: {reason}",
                law.key.operator
            ))),
        }
    }
}

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
    /// Part of the limit a worker may use: [`super::budget_fraction`] of the framework's settings.
    pub budget_fraction: f64,
    /// Resident bytes of a warmed worker before the first task.
    pub baseline_bytes: u64,
    /// One-time bytes of the operator in a process, as far as the baseline lacks them.
    pub one_time_bytes: u64,
    /// The device that each worker has to itself, if its memory is to do.
    pub device: Option<Device>,
    /// Swap that a worker may take beyond its budget.
    pub slow: Option<SlowMemory>,
    /// The array is on that device, not in the host's memory.
    pub on_device: bool,
    /// Of the chunks that a search may take, what a worker needs in addition to all that is counted here.
    pub extra: Option<Extra>,
    /// Where a task gets its cells from.
    pub source: Source,
    /// Chunk of the store that the array lies in, one length per axis: chunks are to be made of
    /// whole ones.
    pub storage_chunks: Option<Vec<u64>>,
    /// No chunks but whole ones of the store: two tasks must not write one.
    pub aligned: bool,
    /// What to choose by.
    pub minimise: Minimise,
    /// How far the law's seconds may be off: [`crate::model::Seconds::spread`].
    pub seconds_spread: f64,
}

impl Request {
    /// One worker of one thread, which may use all of its limit, and no halo.
    pub fn new(shape: Vec<u64>, item_bytes: u64, memory_limit_bytes: u64) -> Request {
        Request {
            operator: String::new(),
            item_bytes,
            halo: vec![0; shape.len()],
            shape,
            whole_axes: Vec::new(),
            workers: 1,
            threads_per_worker: 1,
            memory_limit_bytes,
            budget_fraction: 1.0,
            baseline_bytes: 0,
            one_time_bytes: 0,
            device: None,
            slow: None,
            on_device: false,
            extra: None,
            source: Source::default(),
            storage_chunks: None,
            aligned: false,
            minimise: Minimise::default(),
            seconds_spread: Seconds::default().spread(),
        }
    }

    /// The operator of a law on an array of a shape, with a worker of Dask.
    ///
    /// # Errors
    /// The operator takes no array.
    pub fn of(law: &Law, shape: Vec<u64>, memory_limit_bytes: u64) -> Result<Request, PlanError> {
        let nothing =
            || PlanError::Request("the law's operator takes no array, so there is nothing to chunk".into());
        let input = law.inputs.first().ok_or_else(nothing)?;
        let worker = Process::dask_worker(law.baseline.as_ref().and_then(|baseline| baseline.resident_bytes));
        Ok(Request {
            operator: law.key.operator.clone(),
            budget_fraction: worker.budget_fraction,
            baseline_bytes: worker.baseline_bytes,
            one_time_bytes: law.one_time.bytes,
            on_device: law.is_on_device(),
            seconds_spread: law.seconds.spread(),
            ..Request::new(shape, input.item_bytes, memory_limit_bytes)
        })
    }

    /// The same in a process of its own.
    ///
    /// # Errors
    /// The operator takes no array.
    pub fn in_own_process(law: &Law, shape: Vec<u64>, memory_limit_bytes: u64) -> Result<Request, PlanError> {
        let process = Process::plain(law.baseline.as_ref().and_then(|baseline| baseline.resident_bytes));
        Ok(Request {
            budget_fraction: process.budget_fraction,
            baseline_bytes: process.baseline_bytes,
            ..Request::of(law, shape, memory_limit_bytes)?
        })
    }

    /// Bytes of an array of these lengths.
    pub(super) fn bytes(&self, lengths: impl IntoIterator<Item = u64>) -> u64 {
        lengths.into_iter().fold(self.item_bytes, u64::saturating_mul)
    }

    /// What each worker may use, bytes.
    pub fn budget_bytes(&self) -> u64 {
        (self.memory_limit_bytes as f64 * self.budget_fraction) as u64
    }

    /// What a worker may take at most, slow memory included, bytes.
    pub(super) fn room_bytes(&self, worker: &WorkerBytes) -> u64 {
        self.budget_bytes().saturating_add(self.in_slow_memory(worker))
    }

    /// The least budget with which a worker may need this much.
    pub(super) fn least_budget(&self, worker: &WorkerBytes) -> u64 {
        worker.peak().saturating_sub(self.in_slow_memory(worker))
    }

    /// The memory limit under which a worker may need this much.
    pub(super) fn least_limit(&self, worker: &WorkerBytes) -> u64 {
        self.limit_for(self.least_budget(worker))
    }

    /// What of a worker may be in slow memory at most.
    fn in_slow_memory(&self, worker: &WorkerBytes) -> u64 {
        self.slow.map_or(0, |slow| slow.most_bytes(worker))
    }

    /// The memory limit of which `bytes` are the usable part.
    pub(super) fn limit_for(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.budget_fraction).ceil() as u64
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
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
        if self.item_bytes == 0 {
            return wrong(format!(
                "{} takes no array that chunks could be made of: the longest argument that fits is what --axis finds",
                self.operator
            ));
        }
        if self.workers == 0 || self.threads_per_worker == 0 {
            return wrong("workers and threads per worker must be at least 1".into());
        }
        if let Some(chunk) = &self.storage_chunks
            && (chunk.len() != ndim || chunk.contains(&0))
        {
            return wrong("the store's chunks need one length of at least 1 for every axis".into());
        }
        if self.device.is_some_and(|device| device.limit_bytes == 0) {
            return wrong("the memory limit of the device must be above 0".into());
        }
        if self.slow.is_some() && self.minimise != Minimise::Time {
            return wrong("what slow memory costs is weighed in seconds: minimise time".into());
        }
        if self.aligned && self.storage_chunks.is_none() {
            return wrong("say what the store's chunks are that chunks are to be made of".into());
        }
        if !(self.budget_fraction > 0.0 && self.budget_fraction <= 1.0) {
            return wrong("the usable part of the memory limit must be above 0 and at most 1".into());
        }
        Ok(())
    }
}
