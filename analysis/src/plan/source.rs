//! Where the cells of a block come from, and what a worker retains because of it.

use super::frontier;
use super::grid::Grid;
use super::request::{Request, Source};

/// Workers that retain as much as a single one would: of what one worker retained, the most that
/// any of 2, 4 and 8 workers retained was 1.0, 0.72 and 0.37.
const EQUAL_SHARERS: u64 = 3;

/// What one of `workers` retains at most of what a single one would, both in chunks or both in
/// bytes: an even part for each of those beyond [`EQUAL_SHARERS`], and a chunk more, since parts
/// are whole chunks and none comes out even. (Four blocks on four workers: 3.3 chunks were
/// measured.)
pub(crate) fn share(retained: u64, chunk: u64, workers: u64) -> u64 {
    if workers <= EQUAL_SHARERS {
        return retained;
    }
    let even = (u128::from(retained) * u128::from(EQUAL_SHARERS)).div_ceil(u128::from(workers)) as u64;
    even.saturating_add(chunk).min(retained)
}

/// Chunks that zarr reads and decodes at a time: `async.concurrency` of zarr 3. Each is in memory
/// as it is stored and as it is decoded.
const CHUNKS_AT_ONCE: u64 = 10;

/// How exactly the frontier is to be known.
#[derive(Clone, Copy)]
pub(super) enum Frontier {
    /// As few retained chunks as the grid allows: no candidate needs less.
    AtLeast,
    /// Those that the order of the graph's tasks makes a worker retain.
    Walked,
}

impl Source {
    /// Bytes a worker retains in addition to the blocks of its tasks and what these allocate.
    pub(super) fn retained_bytes(self, request: &Request, grid: &Grid, frontier: Frontier) -> u64 {
        let threads = request.threads_per_worker;
        match self {
            Source::Dask => shared(request, grid, frontier),
            Source::Storage => 0,
            Source::Waves => {
                request.bytes(touched(request, grid).map(|axis| axis.most)).saturating_mul(threads)
            }
        }
    }

    /// Bytes that a task needs for a moment to get its block, in addition to the block: a store
    /// returns a part of a chunk by reading all of it.
    pub(super) fn moment_bytes(self, request: &Request, grid: &Grid) -> u64 {
        // Blocks in waves are gathered from chunks that tasks of their own have made.
        let (Source::Storage | Source::Dask, Some(stored)) = (self, &request.storage_chunks) else {
            return 0;
        };
        let pieces = touched(request, grid)
            .zip(stored)
            .map(|(axis, &chunk)| axis.most.div_ceil(chunk))
            .fold(1, u64::saturating_mul);
        let whole = stored.iter().zip(&request.shape).map(|(&chunk, &length)| chunk.min(length));
        request.bytes(whole).saturating_mul(2 * pieces.min(CHUNKS_AT_ONCE))
    }

    /// Tasks of the graph.
    pub(super) fn graph_tasks(self, request: &Request, grid: &Grid) -> f64 {
        let chunks = grid.chunks() as f64;
        match self {
            // Read, operator, and a slice for each neighbour of each block.
            Source::Dask => {
                let pieces = |axis| {
                    let count = grid.count(axis) as f64;
                    if grid.overlaps(axis) { 3.0 * count - 2.0 } else { count }
                };
                chunks + (0..grid.shape.len()).map(pieces).product::<f64>()
            }
            Source::Storage => chunks,
            // The operator, and each source chunk that a block touches.
            Source::Waves => {
                let Some(sources) = &request.storage_chunks else { return 2.0 * chunks };
                let loads = touched(request, grid)
                    .zip(sources)
                    .map(|(axis, &source)| axis.all as f64 / source as f64);
                chunks + loads.product::<f64>()
            }
        }
    }

    /// Cells that are read for each cell of a block: a store reads whole chunks of its own.
    pub(super) fn reading(self, request: &Request, grid: &Grid) -> f64 {
        if request.storage_chunks.is_none() {
            return 1.0;
        }
        touched(request, grid).map(|axis| axis.all as f64 / axis.wanted as f64).product()
    }

    /// True if a task reads its halo itself.
    pub(super) fn reads_halos(self) -> bool {
        self != Source::Dask
    }
}

/// Cells of the store's chunks that blocks touch along an axis.
struct Touched {
    /// By the block that touches most.
    most: u64,
    /// By all blocks together.
    all: u64,
    /// Cells of all blocks.
    wanted: u64,
}

fn touched<'a>(request: &'a Request, grid: &'a Grid) -> impl Iterator<Item = Touched> + 'a {
    (0..grid.shape.len()).map(move |axis| {
        let chunk = request.storage_chunks.as_ref().map_or(1, |chunks| chunks[axis]).max(1);
        let mut touched = Touched { most: 0, all: 0, wanted: 0 };
        for (start, end) in grid.spans(axis, request.source.reads_halos()) {
            let cells =
                end.div_ceil(chunk).saturating_mul(chunk).min(grid.shape[axis]) - start / chunk * chunk;
            touched.most = touched.most.max(cells);
            touched.all = touched.all.saturating_add(cells);
            touched.wanted = touched.wanted.saturating_add(end - start);
        }
        touched
    })
}

/// Source chunks retained for neighbours, and one on its way.
fn shared(request: &Request, grid: &Grid, frontier: Frontier) -> u64 {
    let retained = match frontier {
        Frontier::AtLeast => frontier::least_retained_chunks(grid),
        Frontier::Walked => frontier::retained_chunks(grid),
    };
    let chunk = request.bytes(grid.chunk.iter().copied());
    let share = share(retained, 1, request.workers);
    let waits = share > 0 && grid.chunks() > 1;
    // While a chunk moves between workers both have it. A single worker moves nothing.
    let moving = if waits && request.workers > 1 { request.threads_per_worker } else { 0 };
    // Pieces of a neighbour's chunk have memory of their own where they came from elsewhere.
    let pieces = if waits { request.bytes(grid.block()).saturating_sub(chunk) } else { 0 };
    chunk
        .saturating_mul(share.saturating_add(moving))
        .saturating_add(pieces.saturating_mul(request.threads_per_worker))
}
