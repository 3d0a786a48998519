//! Memory of devices: what a worker may use of the one that it has to itself, and which memory rules its chunks.

use serde::Serialize;

use super::dask::WorkerBytes;
use super::grid::Grid;
use super::source::Frontier;
use super::{PlanError, Request};
use crate::TaskBytes;
use crate::model::Law;

/// What NVIDIA's driver takes of a device for a process that computes there (a context and loaded code): 300 to 500 MB are
/// usual on GPUs since 2018. Nobody asked for it, so no law knows it.
pub const CONTEXT_BYTES: u64 = 500_000_000;

/// The device of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Its memory, or the part that a worker may use; [`CONTEXT_BYTES`] of it are gone before the first task.
    pub limit_bytes: u64,
}

impl Device {
    /// One of which a worker may use so many bytes.
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

/// What a plan needs of each worker's device. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DevicePlan {
    /// One task: what of its inputs is there, and all that it allocates there.
    pub predicted_task_bytes: u64,
    /// At its peak: context, what was held there before, tasks, held chunks if the array is there, and what pools keep.
    pub predicted_worker_bytes: u64,
    /// What may be used.
    pub limit_bytes: u64,
}

/// Which memory rules: more of it would let chunks be faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

    /// As a reader calls it.
    pub fn words(self) -> &'static str {
        match self {
            Bound::Memory => "the worker's memory",
            Bound::DeviceMemory => "the device's memory",
        }
    }
}

/// Bytes of a worker on its device.
pub(super) fn worker_bytes(request: &Request, grid: &Grid, task: &TaskBytes, frontier: Frontier) -> u64 {
    let held = if request.on_device { request.source.held_bytes(request, grid, frontier) } else { 0 };
    let tasks = task.device.upper().saturating_mul(request.threads_per_worker);
    let used = task.device.before.saturating_add(tasks).saturating_add(held);
    let context = request.device.map_or(0, |_| CONTEXT_BYTES);
    context.saturating_add(task.device.reserved(used))
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

/// What part of the memory there is a worker needs, of the host's or the device's, whichever is more.
pub(super) fn part(request: &Request, worker: &WorkerBytes) -> f64 {
    host_part(request, worker).max(device_part(request, worker))
}

/// True if a worker stays within its budget, and within its device.
pub(super) fn is_within(request: &Request, worker: &WorkerBytes) -> bool {
    worker.peak() <= request.budget_bytes()
        && request.device.is_none_or(|device| worker.device <= device.limit_bytes)
}
