//! What a Dask worker needs beyond the operator: the memory of a candidate grid.
//!
//! The constants were measured with `examples/dask_chunks.py` (docs/results/chunks.md) on a
//! 2-core machine with dask and distributed 2026.8.

use super::grid::Grid;
use super::request::{Request, Source};
use super::source::Frontier;
use crate::model::TaskBytes;

/// Process memory that tasks leave behind (graph, logs, scheduler messages, Python objects):
/// 2–4 MB measured for graphs of up to 1,000 tasks, doubled.
pub(crate) const FRAMEWORK_BYTES: u64 = 8_000_000;

/// What NVIDIA's driver takes of a device for a process that computes there (a context and loaded
/// code): 300 to 500 MB are usual on GPUs since 2018. The program does not request it, so no law
/// knows it.
pub const CONTEXT_BYTES: u64 = 500_000_000;

/// Bytes of one worker for one grid, by what needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkerBytes {
    /// Interpreter, libraries, framework, one-time bytes.
    pub(super) fixed: u64,
    /// Operator tasks that run at once, their inputs with halo included.
    pub(super) tasks: u64,
    /// Source chunks retained in addition ([`super::Source`]).
    pub(super) frontier: u64,
    /// What the request counts in addition ([`super::Extra`]).
    pub(super) extra: u64,
    /// All of it on the worker's device, which is no part of the rest.
    pub(super) device: u64,
}

impl WorkerBytes {
    /// `baseline + one-time bytes + threads × law(chunk + halo) + frontier + extra + framework`.
    pub(super) fn peak(self) -> u64 {
        self.fixed.saturating_add(self.tasks).saturating_add(self.frontier).saturating_add(self.extra)
    }

    pub(super) fn of(request: &Request, grid: &Grid, task: &TaskBytes, frontier: Frontier) -> Self {
        WorkerBytes {
            fixed: request
                .baseline_bytes
                .saturating_add(one_time_bytes(request, task))
                .saturating_add(FRAMEWORK_BYTES),
            tasks: task_bytes(request, grid, task).saturating_mul(request.threads_per_worker),
            frontier: if request.on_device {
                0
            } else {
                request.source.retained_bytes(request, grid, frontier)
            },
            extra: 0,
            device: device_bytes(request, grid, task, frontier),
        }
    }
}

/// Nothing where the baseline has them; else those of a first task of this size, which may be more
/// than any that was recorded.
fn one_time_bytes(request: &Request, task: &TaskBytes) -> u64 {
    if request.one_time_bytes == 0 { 0 } else { request.one_time_bytes.max(task.one_time) }
}

/// What a grid needs whatever its law says: the inputs of the tasks that run at once.
pub(super) fn least_bytes(request: &Request, grid: &Grid) -> u64 {
    let block = if request.on_device { arriving(request, grid) } else { request.bytes(grid.block()) };
    block.saturating_mul(request.threads_per_worker).saturating_add(request.baseline_bytes)
}

/// Peak of one task: the block it is given and what it allocates, its output included; or what it
/// takes to come by the block, where that is more.
pub(super) fn task_bytes(request: &Request, grid: &Grid, task: &TaskBytes) -> u64 {
    let moment = request.source.moment_bytes(request, grid);
    let working = task.working_upper.max(task.working).max(moment);
    let input = task.input.saturating_add(arriving(request, grid));
    working.saturating_add(input)
}

/// What lies in the host's memory of a block on its way to the device: a store is read into that.
fn arriving(request: &Request, grid: &Grid) -> u64 {
    let passes = request.on_device && request.source == Source::Storage;
    if passes { request.bytes(grid.block()) } else { 0 }
}

/// Bytes of a worker on its device.
fn device_bytes(request: &Request, grid: &Grid, task: &TaskBytes, frontier: Frontier) -> u64 {
    let retained = if request.on_device { request.source.retained_bytes(request, grid, frontier) } else { 0 };
    let tasks = task.device.upper().saturating_mul(request.threads_per_worker);
    let used = task.device.before.saturating_add(tasks).saturating_add(retained);
    let context = request.device.map_or(0, |_| CONTEXT_BYTES);
    context.saturating_add(task.device.reserved(used))
}
