//! A plan of chunks beside what the workers of a trace held: for its page.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use memtrace_trace::Trace;
use memtrace_trace::rows::ProcessRow;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Larger plans are refused.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Workers that are shown, and points of each.
const WORKERS_MAX: usize = 8;
const POINTS_MAX: u64 = 200;
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
    calls: u64,
    /// The number of a call, from 1, and the peak of the process's resident memory while it ran;
    /// of neighbouring calls the largest.
    held: Vec<(u64, u64)>,
}

/// The calls of a process.
#[derive(Default)]
struct Calls {
    number: u64,
    /// Of those, how many say what was resident.
    known: u64,
    /// The most of that.
    most: u64,
}

/// Reads a plan, and what the trace has beside it.
///
/// # Errors
/// The file cannot be read, or is no plan of chunks; a table cannot be read.
pub fn of_trace(path: &Path, trace: &Trace) -> Result<Shown> {
    let mut plan = read(path)?;
    plan.pareto.truncate(CHOICES_MAX);
    Ok(Shown { plan, workers: workers(trace)? })
}

fn read(path: &Path) -> Result<Plan> {
    let cannot = || format!("cannot read {}", path.display());
    let mut text = Vec::new();
    let file = File::open(path).with_context(cannot)?;
    // One byte beyond the limit distinguishes a file that is too large from one that just fits.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).with_context(cannot)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        bail!("{} is larger than a plan may be ({})", path.display(), Bytes(MAX_FILE_BYTES));
    }
    let plan: Option<Plan> = serde_json::from_slice(&text).ok();
    plan.filter(|plan| plan.chunk_shape.len() <= AXES_MAX).with_context(|| {
        format!("{} is no plan of chunks as recommend --format json or plan --json prints it", path.display())
    })
}

/// Reads the spans twice: which processes held most, and what those held from call to call.
fn workers(trace: &Trace) -> Result<Vec<Worker>> {
    let mut all: BTreeMap<u32, Calls> = BTreeMap::new();
    each_outermost(trace, |process, resident| {
        let calls = all.entry(process).or_default();
        calls.number += 1;
        calls.known += u64::from(resident.is_some());
        calls.most = calls.most.max(resident.unwrap_or(0));
    })?;
    let mut all: Vec<(u32, Calls)> = all.into_iter().filter(|(_, calls)| calls.known > 0).collect();
    all.sort_by_key(|(_, calls)| Reverse(calls.most));
    all.truncate(WORKERS_MAX);
    let rows = trace.processes()?;
    let mut courses: BTreeMap<u32, Course> =
        all.iter().map(|(process, calls)| (*process, Course::of(calls))).collect();
    each_outermost(trace, |process, resident| {
        if let Some(course) = courses.get_mut(&process) {
            course.add(resident);
        }
    })?;
    let worker = |(process, calls): (u32, Calls)| Worker {
        process,
        name: rows.get(process as usize).map(named).unwrap_or_default(),
        calls: calls.number,
        held: courses.remove(&process).map(|course| course.held).unwrap_or_default(),
    };
    Ok(all.into_iter().map(worker).collect())
}

/// The process of each outermost call, and what was resident at most while it ran. A table of spans
/// has them by their start.
fn each_outermost(trace: &Trace, mut each: impl FnMut(u32, Option<u64>)) -> Result<()> {
    trace.each_span_figures(|row| {
        if row.parent.is_none() {
            each(row.process, row.resident_peak_bytes);
        }
    })?;
    Ok(())
}

fn named(row: &ProcessRow) -> String {
    format!("{} {}", row.pid, row.command).chars().take(NAME_MAX).collect()
}

/// What a process held, with neighbouring calls together.
struct Course {
    held: Vec<(u64, u64)>,
    calls: u64,
    known: u64,
    together: u64,
}

impl Course {
    fn of(calls: &Calls) -> Course {
        Course { held: Vec::new(), calls: 0, known: 0, together: calls.known.div_ceil(POINTS_MAX) }
    }

    fn add(&mut self, resident: Option<u64>) {
        self.calls += 1;
        let Some(bytes) = resident else { return };
        let begins = self.known.is_multiple_of(self.together.max(1));
        self.known += 1;
        match self.held.last_mut() {
            Some(last) if !begins => *last = if bytes > last.1 { (self.calls, bytes) } else { *last },
            _ => self.held.push((self.calls, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_neighbouring_calls_the_largest_is_kept() {
        let mut course = Course::of(&Calls { number: 401, known: 400, most: 400 });
        course.add(None);
        (1..=400).rev().for_each(|bytes| course.add(Some(bytes)));
        assert_eq!(course.held.len() as u64, POINTS_MAX);
        assert_eq!((course.held[0], course.held[199]), ((2, 400), (400, 2)));
    }
}
