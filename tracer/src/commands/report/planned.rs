//! A plan of chunks beside what the workers of a trace held: for its page.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use memtrace_analysis::report::document::{Process, Report, Span};
use serde::{Deserialize, Serialize};

/// Larger plans are refused.
const MAX_FILE_BYTES: u64 = 1 << 28;
/// Workers that are shown, and points of each.
const WORKERS_MAX: usize = 8;
const POINTS_MAX: usize = 200;
/// Choices of chunks that are shown.
const CHOICES_MAX: usize = 200;
/// Axes that an array may have, and letters of a worker's command that are shown.
const AXES_MAX: usize = 64;
const NAME_MAX: usize = 200;

/// What `recommend --format json` or `plan --json` printed, as far as it is shown.
#[derive(Deserialize, Serialize)]
struct Plan {
    chunk_shape: Vec<u64>,
    tasks: u64,
    predicted_worker_bytes: u64,
    budget_bytes: u64,
    memory_limit_bytes: u64,
    /// Choices of chunks that were left.
    #[serde(default)]
    pareto: Vec<Choice>,
}

#[derive(Deserialize, Serialize)]
struct Choice {
    tasks: u64,
    predicted_worker_bytes: u64,
}

/// A plan, and what was measured.
#[derive(Serialize)]
pub struct Shown {
    #[serde(flatten)]
    plan: Plan,
    /// Processes that ran calls of operators, those that held most first.
    workers: Vec<Worker>,
}

/// What a process held while its calls ran, one after the other.
#[derive(Serialize)]
struct Worker {
    process: u32,
    name: String,
    calls: usize,
    /// The number of a call, from 1, and the peak of the process's resident memory while it ran;
    /// of neighbouring calls the largest.
    held: Vec<(usize, u64)>,
}

/// Reads a plan, and what the trace of this report has beside it.
///
/// # Errors
/// The file cannot be read, or is no plan of chunks.
pub fn of_trace(path: &Path, report: &Report) -> Result<Shown> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let plan: Option<Plan> = serde_json::from_reader(file.take(MAX_FILE_BYTES)).ok();
    let plan = plan.filter(|plan| plan.chunk_shape.len() <= AXES_MAX);
    let mut plan = plan.with_context(|| {
        format!("{} is no plan of chunks as recommend --format json or plan --json prints it", path.display())
    })?;
    plan.pareto.truncate(CHOICES_MAX);
    Ok(Shown { plan, workers: workers(report) })
}

fn workers(report: &Report) -> Vec<Worker> {
    let mut calls: BTreeMap<u32, Vec<&Span>> = BTreeMap::new();
    let outermost = report.operators.iter().flat_map(|of| &of.spans).filter(|span| span.parent.is_none());
    outermost.for_each(|span| calls.entry(span.process).or_default().push(span));
    let mut workers: Vec<Worker> =
        calls.into_iter().map(|(process, calls)| worker(report, process, calls)).collect();
    workers.retain(|worker| !worker.held.is_empty());
    workers.sort_by_key(|worker| std::cmp::Reverse(worker.held.iter().map(|(_, bytes)| *bytes).max()));
    workers.truncate(WORKERS_MAX);
    workers
}

fn worker(report: &Report, process: u32, mut calls: Vec<&Span>) -> Worker {
    calls.sort_by(|a, b| a.start_seconds.total_cmp(&b.start_seconds).then(a.span.cmp(&b.span)));
    let known = (1..).zip(&calls).filter_map(|(call, span)| Some((call, span.resident_peak_bytes?)));
    let known: Vec<(usize, u64)> = known.collect();
    let together = known.len().div_ceil(POINTS_MAX).max(1);
    let largest = |near: &[(usize, u64)]| near.iter().copied().max_by_key(|(_, bytes)| *bytes);
    let named = |row: &Process| format!("{} {}", row.pid, row.command).chars().take(NAME_MAX).collect();
    Worker {
        process,
        name: report.processes.get(process as usize).map(named).unwrap_or_default(),
        calls: calls.len(),
        held: known.chunks(together).filter_map(largest).collect(),
    }
}
