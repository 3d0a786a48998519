//! From a trace to runs: what each span of an operator allocated and released, in order.

pub mod category;
pub mod choices;
mod devices;
pub mod measured;
pub mod own;
pub mod places;
pub mod provenance;
mod run;
pub mod stacks;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use memtrace_trace::rows::{AllocationRow, Kind, Role, SpanRow};
use memtrace_trace::{AllocationFilter, Meta, Trace};

use self::devices::Devices;
use self::measured::Baseline;
use self::places::Place;
pub use self::run::{Block, Event, FAILED, MIN_BYTES, Program, Run, THREADS, differ};
use crate::error::Error;
use crate::parallel;
use crate::profile::provenance::Source;

/// Deepest nesting of spans that is followed: a trace that nests deeper, or in a circle, is
/// damaged.
pub(crate) const MAX_DEPTH: usize = 256;

/// The runs of all operators in one trace.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Finished spans, in the order they began.
    pub runs: Vec<Run>,
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

/// Reads the finished spans of a trace that lost no events.
///
/// # Errors
/// The trace cannot be read, or was recorded without the rows of blocks that a law is made of.
pub fn read(trace: &Trace) -> Result<Profile, Error> {
    read_all(std::slice::from_ref(trace)).map(|mut profiles| profiles.remove(0))
}

/// The same of several traces, in their order, some of them at a time. Traces of one program have
/// the same call stacks: the place of a site is read from the first trace that needs it, and stands
/// in that one's profile only.
///
/// # Errors
/// As [`read`].
pub fn read_all(traces: &[Trace]) -> Result<Vec<Profile>, Error> {
    let read = |found: &mut Vec<(usize, Profile)>, index: usize| {
        found.push((index, without_places(&traces[index])?));
        Ok(())
    };
    let threads = parallel::threads().min(traces.len()).max(1);
    let found = parallel::in_parallel(traces.len(), threads, Vec::new, read)?;
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    found.sort_unstable_by_key(|(index, _)| *index);
    let mut profiles: Vec<Profile> = found.into_iter().map(|(_, profile)| profile).collect();
    let mut known = HashSet::<u64>::new();
    for (trace, profile) in traces.iter().zip(&mut profiles) {
        let blocks = profile.runs.iter().flat_map(Run::blocks);
        let new = blocks.filter_map(|block| block.site).filter(|site| !known.contains(site)).collect();
        profile.places = places::of_law(trace, &new)?;
        known.extend(profile.places.keys());
    }
    Ok(profiles)
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
    let lossy: HashMap<u32, u64> = processes
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
    let mut spans = trace.spans()?;
    spans.sort_by_key(|span| (span.start_ns, span.span));
    let parents: HashMap<u32, Option<u32>> = spans.iter().map(|span| (span.span, span.parent)).collect();
    let all = spans.len();
    spans.retain(|span| span.end_ns.is_some() && !lossy.contains_key(&span.process));
    if lossy.is_empty() && spans.len() < all {
        notes.push(format!("{} spans that never ended were left out", all - spans.len()));
    }
    let all = spans.len();
    spans.retain(|span| kept.rotated == 0 || span.start_ns > kept.complete_from_ns);
    if spans.len() < all {
        notes
            .push(format!("{} spans whose blocks --max-trace-size deleted were left out", all - spans.len()));
    }
    let source = Source::of(trace, spans.iter());
    if let Some(threads) = threads(trace.meta()) {
        add_threads(&mut spans, threads);
    }
    let mut rows = blocks_by_span(trace, &spans, &parents)?;
    let untouched = trace.untouched_blocks()?;
    let baselines = measured::baselines(trace, &spans)?;
    let reserved = devices::reserved(trace)?;
    let devices = Devices::read(trace)?;
    let runs = spans.into_iter().map(|span| {
        let end_ns = span.end_ns.unwrap_or(i64::MAX);
        let rows = rows.remove(&span.span).unwrap_or_default();
        let (mut there, here): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.kind.is_on_device());
        there.retain(|row| devices.is_used(row));
        let before_on_devices = devices.before(&span);
        let (program, on_devices) = (program(here, end_ns, &untouched), program(there, end_ns, &untouched));
        Run { span, program, on_devices, before_on_devices }
    });
    let (runs, places) = (runs.collect(), HashMap::new());
    Ok(Profile { runs, baselines, reserved, allocators, places, notes, source: Some(source) })
}

/// Threads that numerical libraries were set to, where they were.
pub fn threads(meta: &Meta) -> Option<u64> {
    meta.recorded.get("threads")?.parse().ok()
}

/// Each set of parameters once: spans share them.
fn add_threads(spans: &mut [SpanRow], threads: u64) {
    let mut known: HashMap<*const _, (Arc<_>, Arc<_>)> = HashMap::new();
    for span in spans {
        let (_, longer) = known.entry(Arc::as_ptr(&span.params)).or_insert_with(|| {
            let mut longer = (*span.params).clone();
            longer.insert(THREADS.into(), threads.into());
            (Arc::clone(&span.params), Arc::new(longer))
        });
        span.params = Arc::clone(longer);
    }
}

/// The blocks of each span, those of the spans inside it included.
fn blocks_by_span(
    trace: &Trace,
    spans: &[SpanRow],
    parents: &HashMap<u32, Option<u32>>,
) -> memtrace_trace::Result<HashMap<u32, Vec<AllocationRow>>> {
    let ends: HashMap<u32, i64> = spans.iter().filter_map(|span| Some((span.span, span.end_ns?))).collect();
    let all: HashSet<u32> = parents.keys().copied().collect();
    let mut rows: HashMap<u32, Vec<AllocationRow>> = HashMap::new();
    let filter = AllocationFilter { min_bytes: MIN_BYTES, process: None, spans: Some(&all) };
    trace.allocations(filter, |row| {
        let mut span = row.span;
        let mut seen: Vec<u32> = Vec::new();
        while let Some(id) = span.filter(|id| seen.len() < MAX_DEPTH && !seen.contains(id)) {
            seen.push(id);
            // A span that began inside may go on after it.
            if ends.get(&id).is_some_and(|end| row.alloc_ns <= *end) && counts(row.kind) {
                rows.entry(id).or_default().push(row.clone());
            }
            span = parents.get(&id).copied().flatten();
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
            // A release at the same nanosecond as another block's allocation made room for it.
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
