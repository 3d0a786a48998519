//! Stacks with what they hold, as flame graphs show them.

use std::collections::HashSet;

use memtrace_trace::rows::{FrameRow, SpanRow};
use memtrace_trace::{AllocationFilter, Trace};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::parallel::{in_parallel, threads};
use crate::sites;

/// Blocks that were released this soon are temporary.
pub const TEMPORARY_NS: i64 = 10_000;

/// Of which time, or which blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// Live bytes at their peak.
    Peak,
    /// What the largest span of this operator had allocated and not released at its working peak.
    Span(String),
    /// Heap blocks that were never released.
    Exit,
    /// Heap blocks that were released within [`TEMPORARY_NS`].
    Temporary,
}

/// Stacks and their widths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flame {
    /// What the widths are: a sentence without its end.
    pub what: String,
    /// The unit of the widths: `bytes` or `blocks`.
    pub unit: &'static str,
    /// The sum of the widths.
    pub total: u64,
    /// Names of frames, outermost first; and the width.
    pub stacks: Vec<(Vec<String>, u64)>,
}

/// The stacks of a trace; what has none is there under a name that says so.
///
/// # Errors
/// A table cannot be read, no span has the name, or not every block has a row.
pub fn flame(trace: &Trace, at: &At) -> Result<Flame, Error> {
    let unit = if *at == At::Temporary { "blocks" } else { "bytes" };
    let (what, shares) = match at {
        At::Peak => ("live bytes at their peak".into(), at_peak(trace)?),
        At::Span(name) => {
            has_rows(trace)?;
            let span = largest(trace, name)?;
            (
                format!("bytes allocated in {} (call {}) at its working peak", span.operator, span.call),
                in_span(trace, &span)?,
            )
        }
        At::Exit => {
            let what = "heap bytes never released".into();
            (what, of_rows(trace, |free, _, bytes| if free.is_none() { bytes } else { 0 })?)
        }
        At::Temporary => {
            let what = format!("heap blocks released within {} µs", TEMPORARY_NS / 1000);
            let is_short =
                |free: Option<i64>, alloc: i64| free.is_some_and(|free| free - alloc <= TEMPORARY_NS);
            (what, of_rows(trace, |free, alloc, _| u64::from(is_short(free, alloc)))?)
        }
    };
    named(trace, what, unit, shares)
}

/// Widths by site; `None` for what has no stack.
type Shares = FxHashMap<Option<u64>, u64>;

fn unreadable(error: memtrace_trace::Error) -> Error {
    Error::Trace(error.to_string())
}

fn at_peak(trace: &Trace) -> Result<Shares, Error> {
    let rows = trace.sites().map_err(unreadable)?;
    let mut shares: Shares = rows.iter().map(|row| (Some(row.site), row.live_bytes_at_peak)).collect();
    let known = shares.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    shares.insert(None, trace.meta().peak.live_bytes.saturating_sub(known));
    Ok(shares)
}

fn has_rows(trace: &Trace) -> Result<(), Error> {
    match trace.meta().recorded.get("rows").filter(|rows| *rows != "all") {
        Some(rows) => Err(Error::NoRows(format!("not every block has a row in it ({rows})"))),
        None => Ok(()),
    }
}

/// The span with the largest working peak among those whose operator, or its function, has this name.
fn largest(trace: &Trace, name: &str) -> Result<SpanRow, Error> {
    let mut spans = trace.span_figures().map_err(unreadable)?;
    let is_it = |span: &SpanRow| span.operator == name || span.operator.rsplit(':').next() == Some(name);
    let found = spans.iter().enumerate().filter(|(_, span)| is_it(span));
    match found.max_by_key(|(place, span)| (span.working_peak_bytes, std::cmp::Reverse(*place))) {
        Some((place, _)) => Ok(spans.swap_remove(place)),
        None => Err(Error::NoRows(format!("it has no span of an operator {name}"))),
    }
}

fn in_span(trace: &Trace, span: &SpanRow) -> Result<Shares, Error> {
    let mut inside = HashSet::from([span.span]);
    // Inner spans come later than those around them.
    for row in trace.span_figures().map_err(unreadable)? {
        if row.parent.is_some_and(|parent| inside.contains(&parent)) {
            inside.insert(row.span);
        }
    }
    let mut shares = Shares::default();
    let filter = AllocationFilter { process: Some(span.process), spans: Some(&inside), ..Default::default() };
    let read = trace.allocations(filter, |row| {
        let counts = row.kind.is_heap() || row.kind.is_own_memory();
        let is_there = row.alloc_ns <= span.peak_ns && row.free_ns.is_none_or(|free| span.peak_ns < free);
        if counts && is_there {
            add(&mut shares, row.site, row.bytes);
        }
    });
    read.map_err(unreadable)?;
    Ok(shares)
}

/// Sums over all heap blocks of what `width` says to release, acquire and bytes.
fn of_rows(trace: &Trace, width: impl Fn(Option<i64>, i64, u64) -> u64 + Sync) -> Result<Shares, Error> {
    has_rows(trace)?;
    let groups = trace.block_groups().map_err(unreadable)?;
    let parts = in_parallel(groups.len(), threads(), Shares::default, |shares, index| {
        let read = groups[index].lives(|life| {
            if life.kind.is_heap() {
                add(shares, life.site, width(life.free_ns, life.alloc_ns, life.bytes));
            }
        });
        read.map_err(unreadable)
    })?;
    let mut all = Shares::default();
    parts.into_iter().flatten().for_each(|(site, width)| add(&mut all, site, width));
    Ok(all)
}

fn add(shares: &mut Shares, site: Option<u64>, width: u64) {
    if width > 0 {
        let share = shares.entry(site).or_default();
        *share = share.saturating_add(width);
    }
}

fn named(trace: &Trace, what: String, unit: &'static str, shares: Shares) -> Result<Flame, Error> {
    let frames = trace.frames().map_err(unreadable)?;
    let sites = trace.sites().map_err(unreadable)?;
    let leaves: FxHashMap<u64, u32> = sites.iter().map(|row| (row.site, row.frame)).collect();
    let mut stacks: Vec<(Vec<String>, u64)> = shares
        .into_iter()
        .filter(|(_, width)| *width > 0)
        .map(|(site, width)| {
            let leaf = site.and_then(|site| leaves.get(&site));
            let mut names: Vec<String> = leaf
                .iter()
                .flat_map(|leaf| sites::stack(&frames, **leaf))
                .map(|frame| name(&frame))
                .collect();
            names.reverse();
            (if names.is_empty() { vec![without_stack(trace)] } else { names }, width)
        })
        .collect();
    stacks.sort();
    let total = stacks.iter().fold(0, |sum: u64, (_, width)| sum.saturating_add(*width));
    Ok(Flame { what, unit, total, stacks })
}

fn without_stack(trace: &Trace) -> String {
    match trace.meta().recorded.get("stacks").map(String::as_str) {
        Some("blocks of 64 KiB and more") => "(no stack: below 64 KiB)".into(),
        _ => "(no stack)".into(),
    }
}

/// `gst3d (/home/me/run_gst3d.py:41)`, `fft (libfftw3.so.3)`.
fn name(frame: &FrameRow) -> String {
    let function = frame.function.as_deref().unwrap_or("?");
    match (&frame.file, &frame.module) {
        (Some(_), _) => sites::text(frame),
        (None, Some(module)) => format!("{function} ({})", sites::base_name(module)),
        (None, None) => function.into(),
    }
}
