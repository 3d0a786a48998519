//! The sentences that explain a plan.

use super::dask::WorkerBytes;
use super::grid;
use super::search::Weighed;
use super::{Choice, Request};
use crate::model::joined;

/// Why these chunks: the memory they need, and what kept faster ones out.
pub(super) fn chosen(request: &Request, best: &Weighed, skipped: Option<&Weighed>) -> String {
    let grid = &best.timed.grid;
    let head = format!(
        "{} in {} chunks of {} is foretold to need {} of the {} a worker may use",
        request.operator,
        grid.chunks(),
        joined(&grid.chunk),
        megabytes(best.worker.peak()),
        megabytes(request.budget_bytes()),
    );
    match skipped {
        Some(faster) => format!(
            "{head}; chunks of {} would be the next faster, but need {}, most of it for {}.",
            joined(&faster.timed.grid.chunk),
            megabytes(faster.worker.peak()),
            largest_part(faster.worker),
        ),
        None => format!("{head}, and no chunking is foretold to be noticeably faster."),
    }
}

/// What waves would do, after a sentence on chunks that neighbours share.
pub(super) fn in_waves(waves: &Choice, would_be: &str) -> String {
    format!(
        " In waves (a few blocks at a time, each with its halo) chunks of {} would be {would_be}: {} for a worker, {:.1} s.",
        joined(&waves.chunk_shape),
        megabytes(waves.predicted_worker_bytes),
        waves.predicted_seconds,
    )
}

/// Why there is no plan, and what would help.
pub(super) fn refused(request: &Request, least: &Weighed) -> String {
    format!(
        "No chunking of {} into at most {} chunks fits a budget of {}: chunks of {} need the least, {}, most \
         of it for {}; raise the memory limit to {} or give each worker fewer threads.",
        joined(&request.shape),
        grid::MOST_CHUNKS,
        megabytes(request.budget_bytes()),
        joined(&least.timed.grid.chunk),
        megabytes(least.worker.peak()),
        largest_part(least.worker),
        megabytes(request.limit_for(least.worker.peak())),
    )
}

fn largest_part(worker: WorkerBytes) -> &'static str {
    let parts = [
        (worker.tasks, "the operator itself"),
        (worker.frontier, "source chunks held for their neighbours"),
        (worker.fixed, "what the worker holds before it starts"),
    ];
    parts.into_iter().max_by_key(|part| part.0).map_or("", |part| part.1)
}

/// Rounded up: a reader who grants the printed number grants enough.
fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}
