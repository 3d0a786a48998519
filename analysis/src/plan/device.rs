//! Memory of devices: what a worker may use of the one that it has to itself, and which memory
//! rules its chunks.

use schemars::JsonSchema;
use serde::Serialize;

use super::request::Request;
use super::worker_bytes::WorkerBytes;
use crate::model::{Prediction, TaskBytes};

/// What a plan needs of each worker's device. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DevicePlan {
    /// One task: what of its inputs is there, and all that it allocates there.
    pub predicted_task_bytes: u64,
    /// At its peak: context, what was there before, tasks, retained chunks if the array is there,
    /// and what pools keep.
    pub predicted_worker_bytes: u64,
    /// What may be used.
    pub limit_bytes: u64,
}

/// Which memory rules: more of it would let chunks be faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The host's.
    Memory,
    /// The device's.
    DeviceMemory,
}

impl Bound {
    /// Of which there is less, in proportion to what a worker needs.
    pub(super) fn of(request: &Request, worker: &WorkerBytes) -> Bound {
        if device_part(request, worker) > host_part(request, worker) {
            Bound::DeviceMemory
        } else {
            Bound::Memory
        }
    }

    /// What a prediction's bound on this memory rests on; on the host's where none rules.
    pub fn confidence(of: Option<Bound>, prediction: &Prediction) -> &str {
        match (of, &prediction.device) {
            (Some(Bound::DeviceMemory), Some(device)) => &device.confidence,
            _ => &prediction.confidence,
        }
    }

    /// As a reader calls it.
    pub fn words(self) -> &'static str {
        match self {
            Bound::Memory => "the worker's memory",
            Bound::DeviceMemory => "the device's memory",
        }
    }
}

/// What a plan says of that.
pub(super) fn plan(request: &Request, task: &TaskBytes, worker: &WorkerBytes) -> Option<DevicePlan> {
    let device = request.device?;
    Some(DevicePlan {
        predicted_task_bytes: task.device.upper(),
        predicted_worker_bytes: worker.device,
        limit_bytes: device.limit_bytes,
    })
}

fn host_part(request: &Request, worker: &WorkerBytes) -> f64 {
    worker.peak() as f64 / request.budget_bytes() as f64
}

fn device_part(request: &Request, worker: &WorkerBytes) -> f64 {
    request.device.map_or(0.0, |device| worker.device as f64 / device.limit_bytes as f64)
}

/// What part of the memory there is a worker needs, of the host's or the device's, whichever is
/// more.
pub(super) fn part(request: &Request, worker: &WorkerBytes) -> f64 {
    host_part(request, worker).max(device_part(request, worker))
}

/// True if a worker needs no more than so many bytes of the host, and stays within its device.
pub(super) fn is_within(request: &Request, worker: &WorkerBytes, limit: u64) -> bool {
    worker.peak() <= limit && request.device.is_none_or(|device| worker.device <= device.limit_bytes)
}
