//! From a trace to runs: what each span of an operator allocated and released, in order.

pub mod category;
pub mod choices;
mod devices;
pub mod measured;
pub mod own;
pub mod places;
pub mod provenance;
mod run;
mod sample;
mod several;
mod spans;
pub mod stacks;
mod unused;

use std::collections::{BTreeMap, HashMap};

use memtrace_trace::rows::{AllocationRow, Kind, Role};
use memtrace_trace::{AllocationFilter, Meta, Trace};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use self::devices::Devices;
use self::measured::{Baseline, FirstCall};
use self::places::Place;
pub use self::run::{Block, Event, FAILED, MIN_BYTES, Program, Run, TASK, THREADS, differ};
pub use self::several::{join, read_all, read_with};
use self::spans::Spans;
use crate::error::Error;
use crate::profile::provenance::Source;

/// Deepest nesting of spans that is followed: a trace that nests deeper, or in a circle, is
/// damaged.
pub(crate) const MAX_DEPTH: usize = 256;

/// The runs of all operators in one trace.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Finished spans, in the order they began; of many at one shape, a sample.
    pub runs: Vec<Run>,
    /// How many are not in the sample.
    pub left_out: usize,
    /// What the runs say of the first one of each operator and process.
    pub first_calls: Vec<FirstCall>,
    /// Memory of each process before its first span.
    pub baselines: HashMap<u32, Baseline>,
    /// By process: driver bytes of devices at their peak, and what of them was used then.
    pub reserved: HashMap<u32, (u64, u64)>,
    /// Settings of the allocator in each process's environment, where they were recorded.
    pub allocators: HashMap<u32, String>,
    /// Where the call stacks of the runs' blocks are, by site.
    pub places: HashMap<u64, Place>,
    /// What was left out, and why.
    pub notes: Vec<String>,
    /// The trace.
    pub source: Option<Source>,
}

impl Profile {
    /// A profile of runs alone.
    pub fn of_runs(runs: Vec<Run>) -> Profile {
        Profile { first_calls: measured::first_calls(&runs), runs, ..Profile::default() }
    }
}

/// Reads the finished spans of a trace that lost no events.
///
/// # Errors
/// The trace cannot be read, or was recorded without the rows of blocks that a law is made of.
pub fn read(trace: &Trace) -> Result<Profile, Error> {
    read_all(std::slice::from_ref(trace)).map(|mut profiles| profiles.remove(0))
}

fn without_places(trace: &Trace) -> Result<Profile, Error> {
    let (kept, directory) = (trace.meta().rows, trace.directory().display());
    if kept.aggregate {
        let why = "was recorded with --aggregate: it has no rows of blocks, and a law is made of them";
        return Err(Error::NoRuns(format!("{directory} {why}")));
    }
    if kept.min_size_bytes > MIN_BYTES {
        let why = format!(
            "was recorded with --min-size: a law needs the rows of blocks of {MIN_BYTES} bytes and more"
        );
        return Err(Error::NoRuns(format!("{directory} {why}")));
    }
    let processes = trace.health()?;
    let lossy: BTreeMap<u32, u64> = processes
        .iter()
        .filter(|process| process.lost_events > 0)
        .map(|process| (process.process, process.lost_events))
        .collect();
    let settings = processes.into_iter().filter_map(|row| Some((row.process, row.allocator_settings?)));
    let allocators = settings.collect();
    let mut notes: Vec<String> = lossy
        .values()
        .map(|lost| format!("a process that lost {lost} events was left out: record it again"))
        .collect();
    let devices = Devices::read(trace)?;
    let mut spans = Spans::read(trace, &lossy, &devices)?;
    notes.append(&mut spans.notes);
    let source = Source::of(trace, std::mem::take(&mut spans.operators));
    let baselines = measured::baselines(trace, &spans.first_ns)?;
    let mut rows = blocks_by_span(trace, &spans)?;
    let untouched = trace.untouched_blocks()?;
    let reserved = devices::reserved(trace)?;
    let Spans { read, sample, left_out, .. } = spans;
    let runs = read.into_iter().map(|span| {
        let end_ns = span.end_ns.unwrap_or(i64::MAX);
        let rows = rows.remove(&span.span).unwrap_or_default();
        let (mut there, here): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.kind.is_on_device());
        there.retain(|row| devices.is_used(row));
        let before_on_devices = devices.before(&span);
        let (program, on_devices) = (program(here, end_ns, &untouched), program(there, end_ns, &untouched));
        Run { span, program, on_devices, before_on_devices }
    });
    let mut profile = Profile::of_runs(runs.collect());
    profile.runs.retain(|run| sample.contains(&run.span.span));
    Ok(Profile { left_out, baselines, reserved, allocators, notes, source: Some(source), ..profile })
}

/// Threads that numerical libraries were set to, where they were.
pub fn threads(meta: &Meta) -> Option<u64> {
    meta.recorded.get("threads")?.parse().ok()
}

/// The blocks of each span, those of the spans inside it included.
fn blocks_by_span(
    trace: &Trace,
    spans: &Spans,
) -> memtrace_trace::Result<FxHashMap<u32, Vec<AllocationRow>>> {
    let ends: FxHashMap<u32, i64> =
        spans.read.iter().filter_map(|span| Some((span.span, span.end_ns?))).collect();
    let mut rows: FxHashMap<u32, Vec<AllocationRow>> = FxHashMap::default();
    let filter = AllocationFilter { min_bytes: MIN_BYTES, ..AllocationFilter::default() };
    trace.allocations(filter, |row| {
        let mut span = row.span;
        let mut seen: Vec<u32> = Vec::new();
        while let Some(id) = span.filter(|id| seen.len() < MAX_DEPTH && !seen.contains(id)) {
            seen.push(id);
            // A span that began inside may go on after it.
            if ends.get(&id).is_some_and(|end| row.alloc_ns <= *end) && counts(row.kind) {
                rows.entry(id).or_default().push(row.clone());
            }
            span = spans.parent(id);
        }
    })?;
    Ok(rows)
}

/// Kinds that live bytes and device peaks are made of (docs/trace-format.md, "Terms"): not address
/// space without access, not mapped files.
fn counts(kind: Kind) -> bool {
    kind.is_heap() || kind.is_own_memory() || kind.is_on_device()
}

/// An event and when it was.
struct Moment {
    time: i64,
    allocates: bool,
    event: Event,
}

/// Orders the blocks of a span that ended at `end_ns` into a program.
fn program(mut rows: Vec<AllocationRow>, end_ns: i64, untouched: &HashMap<(u32, i64, u64), u64>) -> Program {
    rows.sort_by_key(|row| (row.alloc_ns, row.address, row.bytes));
    let mut moments: Vec<Moment> = Vec::with_capacity(2 * rows.len());
    for (index, row) in rows.iter().enumerate() {
        moments.push(Moment { time: row.alloc_ns, allocates: true, event: Event::Alloc(index) });
        if let Some(free_ns) = row.free_ns.filter(|&free_ns| free_ns <= end_ns) {
            // A release at the time of another block's allocation made room for it.
            let time = free_ns.max(row.alloc_ns.saturating_add(1));
            moments.push(Moment { time, allocates: false, event: Event::Free(index) });
        }
    }
    moments.sort_by_key(|moment| (moment.time, moment.allocates));
    let block = |row: &AllocationRow| Block {
        kind: row.kind,
        bytes: row.bytes,
        output: row.role == Role::Output,
        site: row.site,
        untouched: untouched.get(&(row.process, row.alloc_ns, row.bytes)).copied().unwrap_or(0),
    };
    Program {
        blocks: rows.iter().map(block).collect(),
        events: moments.into_iter().map(|moment| moment.event).collect(),
    }
}
