//! What a Dask worker needs beyond the operator: memory and time of a candidate grid.
//!
//! The constants were measured with `examples/dask_chunks.py` (docs/results/chunks.md) on a
//! 2-core machine with dask and distributed 2026.8.

use super::grid::Grid;
use super::source::{Frontier, Source};
use super::{Request, device};
use crate::TaskBytes;

/// `distributed.worker.memory.spill` and `.pause` as fractions of the memory limit, when a
/// user's configuration says nothing else.
pub const SPILL: f64 = 0.70;
/// See [`SPILL`].
pub const PAUSE: f64 = 0.80;

/// Process memory that tasks leave behind (graph, logs, scheduler messages, Python objects):
/// 2–4 MB measured for graphs of up to 1,000 tasks, doubled.
pub(crate) const FRAMEWORK_BYTES: u64 = 8_000_000;

/// Tasks of a graph go through one scheduler: 1.1–1.6 ms each measured for slices of 4 MB chunks,
/// which move between workers more than once.
const TASK_SECONDS: f64 = 1.2e-3;

/// Reading a chunk, joining it with its halo and moving pieces between workers, per byte of
/// block: a first chunk of 64 MB took 0.06–0.12 s to read, as long to move, 0.03 s to join.
const BYTE_SECONDS: f64 = 3e-9;

/// Bytes of one worker for one grid, by what needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkerBytes {
    /// Interpreter, libraries, framework, once bytes.
    pub(super) fixed: u64,
    /// Operator tasks that run at once, their inputs with halo included.
    pub(super) tasks: u64,
    /// Source chunks held beside them ([`super::Source`]).
    pub(super) frontier: u64,
    /// All of it on the worker's device, which is no part of the rest.
    pub(super) device: u64,
}

impl WorkerBytes {
    /// `baseline + once + threads × law(chunk + halo) + frontier + framework` (DESIGN §8).
    pub(super) fn peak(self) -> u64 {
        self.fixed.saturating_add(self.tasks).saturating_add(self.frontier)
    }

    pub(super) fn of(request: &Request, grid: &Grid, task: &TaskBytes, frontier: Frontier) -> Self {
        WorkerBytes {
            fixed: request.baseline_bytes.saturating_add(request.once_bytes).saturating_add(FRAMEWORK_BYTES),
            tasks: task_bytes(request, grid, task).saturating_mul(request.threads_per_worker),
            frontier: if request.on_device { 0 } else { request.source.held_bytes(request, grid, frontier) },
            device: device::worker_bytes(request, grid, task, frontier),
        }
    }
}

/// What a grid needs whatever its law says: the inputs of the tasks that run at once.
pub(super) fn least_bytes(request: &Request, grid: &Grid) -> u64 {
    let block = if request.on_device { arriving(request, grid) } else { request.bytes(grid.block()) };
    block.saturating_mul(request.threads_per_worker).saturating_add(request.baseline_bytes)
}

/// Peak of one task: the block it is given and what it allocates, its output included; or what it takes to come by the
/// block, where that is more.
pub(super) fn task_bytes(request: &Request, grid: &Grid, task: &TaskBytes) -> u64 {
    let moment = request.source.moment_bytes(request, grid);
    let working = task.working_upper.max(task.working).max(moment);
    let input = task.input.saturating_add(arriving(request, grid));
    working.saturating_add(input).saturating_add(request.spare_bytes)
}

/// What lies in the host's memory of a block on its way to the device: a store is read into that.
fn arriving(request: &Request, grid: &Grid) -> u64 {
    let passes = request.on_device && request.source == Source::Storage;
    if passes { request.bytes(grid.block()) } else { 0 }
}

/// Seconds for a grid when a cell costs `cell_seconds`: the busiest thread's blocks with their
/// halos, the scheduler's work on every task, and the bytes that are read, joined and moved.
pub(crate) fn seconds(request: &Request, grid: &Grid, cell_seconds: f64) -> f64 {
    let slots = request.workers.saturating_mul(request.threads_per_worker);
    let (busiest, total) = grid.work(slots);
    let read = total * request.source.reading(request, grid);
    let moved = read * request.item_bytes as f64 / slots as f64;
    busiest * cell_seconds + request.source.graph_tasks(request, grid) * TASK_SECONDS + moved * BYTE_SECONDS
}
