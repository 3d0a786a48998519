//! What a Dask worker needs beyond the operator: memory and time of a candidate grid.
//!
//! The constants were measured with `examples/dask_chunks.py` (docs/results/chunks.md) on a
//! 2-core machine with dask and distributed 2026.8.

use super::Request;
use super::frontier;
use super::grid::Grid;
use crate::TaskBytes;

/// `distributed.worker.memory.spill` and `.pause` as fractions of the memory limit, when a
/// user's configuration says nothing else.
pub const SPILL: f64 = 0.70;
/// See [`SPILL`].
pub const PAUSE: f64 = 0.80;

/// Process memory that tasks leave behind (graph, logs, scheduler messages, Python objects):
/// 2–4 MB measured for graphs of up to 1,000 tasks, doubled.
pub(crate) const FRAMEWORK_BYTES: u64 = 8_000_000;

/// Workers that hold as much as one alone would: of what one worker held, the most that any of
/// 2, 4 and 8 workers held was 1.0, 0.72 and 0.37.
pub(crate) const EQUAL_HOLDERS: u64 = 3;

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
    /// Source chunks held for neighbours, and one on its way.
    pub(super) frontier: u64,
}

impl WorkerBytes {
    /// `baseline + once + threads × law(chunk + halo) + frontier + framework` (DESIGN §8).
    pub(super) fn peak(self) -> u64 {
        self.fixed.saturating_add(self.tasks).saturating_add(self.frontier)
    }

    /// With as few held chunks as the grid allows: no candidate needs less.
    pub(super) fn at_least(request: &Request, grid: &Grid, task: &TaskBytes) -> Self {
        Self::with_held(request, grid, task, frontier::least_held_chunks(grid))
    }

    /// With the chunks held that the order of the graph's tasks makes it hold.
    pub(super) fn of(request: &Request, grid: &Grid, task: &TaskBytes) -> Self {
        Self::with_held(request, grid, task, frontier::held_chunks(grid))
    }

    fn with_held(request: &Request, grid: &Grid, task: &TaskBytes, held: u64) -> Self {
        let chunk = bytes(request, &grid.chunk);
        let share = (held * EQUAL_HOLDERS).div_ceil(request.workers.max(EQUAL_HOLDERS));
        let waits = share > 0 && grid.chunks() > 1;
        // While a chunk moves between workers both have it. Alone, there is nobody to move it.
        let moving = if waits && request.workers > 1 { request.threads_per_worker } else { 0 };
        // Pieces of a neighbour's chunk have memory of their own where they came from elsewhere.
        let pieces = if waits { bytes(request, &grid.block()).saturating_sub(chunk) } else { 0 };
        WorkerBytes {
            fixed: request.baseline_bytes.saturating_add(request.once_bytes).saturating_add(FRAMEWORK_BYTES),
            tasks: task_bytes(task).saturating_mul(request.threads_per_worker),
            frontier: chunk
                .saturating_mul(share.saturating_add(moving))
                .saturating_add(pieces.saturating_mul(request.threads_per_worker)),
        }
    }
}

/// What a grid needs whatever its law says: the inputs of the tasks that run at once.
pub(super) fn least_bytes(request: &Request, grid: &Grid) -> u64 {
    bytes(request, &grid.block())
        .saturating_mul(request.threads_per_worker)
        .saturating_add(request.baseline_bytes)
}

/// Peak of one task: the block it is given and what it allocates, its output included.
pub(super) fn task_bytes(task: &TaskBytes) -> u64 {
    task.working_upper.max(task.working).saturating_add(task.input)
}

fn bytes(request: &Request, shape: &[u64]) -> u64 {
    shape.iter().fold(request.item_bytes, |product, &n| product.saturating_mul(n))
}

/// Seconds for a grid when a cell costs `cell_seconds`: the busiest thread's blocks with their
/// halos, the scheduler's work on every task, and the bytes that are read, joined and moved.
pub(crate) fn seconds(request: &Request, grid: &Grid, cell_seconds: f64) -> f64 {
    let slots = request.workers.saturating_mul(request.threads_per_worker);
    let (busiest, total) = grid.work(slots);
    let moved = total * request.item_bytes as f64 / slots as f64;
    busiest * cell_seconds + graph_tasks(grid) * TASK_SECONDS + moved * BYTE_SECONDS
}

/// Tasks of the graph: read, operator, and a slice for each neighbour of each block.
fn graph_tasks(grid: &Grid) -> f64 {
    let pieces = |axis| {
        let count = grid.count(axis) as f64;
        if grid.overlaps(axis) { 3.0 * count - 2.0 } else { count }
    };
    grid.chunks() as f64 + (0..grid.shape.len()).map(pieces).product::<f64>()
}
