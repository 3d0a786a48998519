//! From a trace to runs: what each span of an operator allocated and released, in order.

mod devices;

use std::collections::{BTreeMap, HashMap, HashSet};

use memtrace_trace::rows::{AllocationRow, Kind, Role, SpanRow};
use memtrace_trace::{AllocationFilter, Trace};

use self::devices::Devices;
use crate::error::Error;
use crate::model::{Baseline, Once, OnceBlock};
use crate::parallel;
use crate::provenance::Source;
use crate::sites::{self, Place};

/// Name under which [`read`] adds to a span's parameters how many threads its libraries were told to use.
pub const THREADS: &str = "memtrace.threads";

/// Blocks below this many bytes are never part of a law's sequence (the lowest threshold of
/// DESIGN §8), so they are not even read.
pub const MIN_BYTES: u64 = 4096;
/// Deepest nesting of spans that is followed: a trace that nests deeper, or in a circle, is damaged.
const MAX_DEPTH: usize = 256;
/// How many of the once blocks are named.
const NAMED_ONCE_BLOCKS: usize = 8;

/// The runs of all operators in one trace.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Finished spans, in the order they began.
    pub runs: Vec<Run>,
    /// What each process held before its first span.
    pub baselines: HashMap<u32, Baseline>,
    /// By process: driver bytes of devices at their peak, and what of them was used then.
    pub reserved: HashMap<u32, (u64, u64)>,
    /// What each process's environment told the allocator, where that was recorded.
    pub allocators: HashMap<u32, String>,
    /// Where the call stacks of the runs' blocks are, by site.
    pub places: HashMap<u64, Place>,
    /// What was left out, and why.
    pub notes: Vec<String>,
    /// The trace.
    pub source: Option<Source>,
}

/// One execution of an operator.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Shapes, parameters, recorded peak.
    pub span: SpanRow,
    /// What it and the spans inside it allocated in the host's memory.
    pub program: Program,
    /// The same on devices.
    pub on_devices: Program,
    /// Used bytes of devices that its process held when it began, its inputs left out.
    pub before_on_devices: u64,
}

/// A sequence of allocations and releases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Blocks of at least [`MIN_BYTES`], in the order they were allocated.
    pub blocks: Vec<Block>,
    /// What happened to them, in time order; blocks that outlive the span have no release.
    pub events: Vec<Event>,
}

/// A block a span allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The call that made it.
    pub kind: Kind,
    /// Requested bytes.
    pub bytes: u64,
    /// True if it holds (part of) a result of the span.
    pub output: bool,
    /// Id of the call stack that allocated it, where it was recorded.
    pub site: Option<u64>,
}

/// An event; the number is the block's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// Allocated.
    Alloc(usize),
    /// Released.
    Free(usize),
}

impl Run {
    /// Seconds from start to end.
    pub fn seconds(&self) -> f64 {
        let end = self.span.end_ns.unwrap_or(self.span.start_ns);
        end.saturating_sub(self.span.start_ns).max(0) as f64 / 1e9
    }

    /// All of its blocks, wherever they are.
    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.program.blocks.iter().chain(&self.on_devices.blocks)
    }

    /// What it allocated on devices, at most.
    pub fn device_peak(&self) -> u64 {
        self.span.device_peak_bytes.unwrap_or(0)
    }

    /// The run as if there were no memory but that of devices.
    pub fn of_devices(&self) -> Run {
        let span = SpanRow { working_peak_bytes: self.device_peak(), ..self.span.clone() };
        Run { span, program: self.on_devices.clone(), ..Run::default() }
    }
}

/// Reads the finished spans of a trace that lost no events.
///
/// # Errors
/// The trace cannot be read, or was recorded without the rows of blocks that a law is made of.
pub fn read(trace: &Trace) -> Result<Profile, Error> {
    read_all(std::slice::from_ref(trace)).map(|mut profiles| profiles.remove(0))
}

/// The same of several traces, in their order, some of them at a time. Traces of one program have the same call
/// stacks: the place of a site is read from the first trace that needs it, and stands in that one's profile only.
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
        profile.places = sites::places_of_law(trace, &new)?;
        known.extend(profile.places.keys());
    }
    Ok(profiles)
}

fn without_places(trace: &Trace) -> Result<Profile, Error> {
    let context = |error: memtrace_trace::Error| Error::Trace(error.to_string());
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
    let processes = trace.health().map_err(context)?;
    let lossy: HashMap<u32, u64> = processes
        .iter()
        .filter(|process| process.lost_events > 0)
        .map(|process| (process.process, process.lost_events))
        .collect();
    let told = processes.into_iter().filter_map(|row| Some((row.process, row.allocator_settings?)));
    let allocators = told.collect();
    let mut notes: Vec<String> = lossy
        .values()
        .map(|lost| format!("a process that lost {lost} events was left out: record it again"))
        .collect();
    let mut spans = trace.spans().map_err(context)?;
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
    if let Some(threads) = trace.meta().recorded.get("threads").and_then(|text| text.parse::<u64>().ok()) {
        spans.iter_mut().for_each(|span| drop(span.params.insert(THREADS.into(), threads.into())));
    }
    let mut rows = blocks_by_span(trace, &spans, &parents).map_err(context)?;
    let baselines = baselines(trace, &spans).map_err(context)?;
    let reserved = devices::reserved(trace).map_err(context)?;
    let devices = Devices::read(trace).map_err(context)?;
    let runs = spans.into_iter().map(|span| {
        let end_ns = span.end_ns.unwrap_or(i64::MAX);
        let rows = rows.remove(&span.span).unwrap_or_default();
        let (mut there, here): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.kind.is_on_device());
        there.retain(|row| devices.is_used(row));
        let before_on_devices = devices.before(&span);
        Run { span, program: program(here, end_ns), on_devices: program(there, end_ns), before_on_devices }
    });
    let (runs, places) = (runs.collect(), HashMap::new());
    Ok(Profile { runs, baselines, reserved, allocators, places, notes, source: Some(source) })
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

/// What live bytes are made of (DESIGN §2): address space without access and mapped files are not. And what device peaks
/// are made of.
fn counts(kind: Kind) -> bool {
    kind.is_heap() || kind.is_own_memory() || kind.is_on_device()
}

/// Orders the blocks of a span that ended at `end_ns` into a program.
fn program(mut rows: Vec<AllocationRow>, end_ns: i64) -> Program {
    rows.sort_by_key(|row| (row.alloc_ns, row.address, row.bytes));
    let mut events: Vec<(i64, bool, Event)> = Vec::with_capacity(2 * rows.len());
    for (index, row) in rows.iter().enumerate() {
        events.push((row.alloc_ns, true, Event::Alloc(index)));
        if let Some(free_ns) = row.free_ns.filter(|&free_ns| free_ns <= end_ns) {
            // A release at the same nanosecond as another block's allocation made room for it.
            let after_its_own = free_ns.max(row.alloc_ns.saturating_add(1));
            events.push((after_its_own, false, Event::Free(index)));
        }
    }
    events.sort_by_key(|&(time, allocates, _)| (time, allocates));
    let block = |row: &AllocationRow| Block {
        kind: row.kind,
        bytes: row.bytes,
        output: row.role == Role::Output,
        site: row.site,
    };
    Program {
        blocks: rows.iter().map(block).collect(),
        events: events.into_iter().map(|(.., event)| event).collect(),
    }
}

fn baselines(trace: &Trace, spans: &[SpanRow]) -> memtrace_trace::Result<HashMap<u32, Baseline>> {
    let mut first: HashMap<u32, i64> = HashMap::new();
    for span in spans {
        let start = first.entry(span.process).or_insert(span.start_ns);
        *start = span.start_ns.min(*start);
    }
    let Some(&latest) = first.values().max() else { return Ok(HashMap::new()) };
    let mut last: HashMap<u32, (i64, Baseline)> = HashMap::new();
    for row in trace.held_until(latest)? {
        let before = first.get(&row.process).is_some_and(|&start| row.time_ns <= start);
        let newer = last.get(&row.process).is_none_or(|(time, _)| *time <= row.time_ns);
        if before && newer {
            let baseline = Baseline { heap_bytes: row.heap_bytes, resident_bytes: row.resident_bytes };
            last.insert(row.process, (row.time_ns, baseline));
        }
    }
    Ok(last.into_iter().map(|(process, (_, baseline))| (process, baseline)).collect())
}

/// Once bytes of one operator in one process (DESIGN §2), from its runs in the order of the calls:
/// what the first left behind that is not its output and that no later one allocates again.
///
/// Of a single run nothing can be told: none.
pub fn once(runs: &[&Run]) -> Once {
    let Some((first, later)) = runs.split_first().filter(|(_, later)| !later.is_empty()) else {
        return Once::default();
    };
    let again: HashSet<(Kind, u64)> =
        later.iter().flat_map(|run| &run.program.blocks).map(|block| (block.kind, block.bytes)).collect();
    let mut left: BTreeMap<usize, Block> = first.program.blocks.iter().copied().enumerate().collect();
    for event in &first.program.events {
        if let Event::Free(block) = event {
            left.remove(block);
        }
    }
    let mut blocks: Vec<Block> = left.into_values().collect();
    blocks.retain(|block| !block.output && !again.contains(&(block.kind, block.bytes)));
    blocks.sort_by_key(|block| std::cmp::Reverse(block.bytes));
    let named = blocks.iter().take(NAMED_ONCE_BLOCKS);
    Once {
        bytes: blocks.iter().fold(0, |sum: u64, block| sum.saturating_add(block.bytes)),
        blocks: named.map(|block| OnceBlock { kind: block.kind.to_string(), bytes: block.bytes }).collect(),
    }
}
