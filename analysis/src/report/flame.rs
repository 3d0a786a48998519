//! Stacks with their bytes, as flame graphs show them.

use std::collections::{HashMap, HashSet};

use memtrace_trace::rows::{SiteRow, SpanRow};
use memtrace_trace::weights::SiteWeights;
use memtrace_trace::{AllocationFilter, AllocationRecord, BlockGroup, Trace};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::parallel::{in_parallel, threads};
use crate::profile::stacks::stack;
use crate::report::composition::{by_place, labels};
use crate::report::fold::{Folded, folded};
use crate::report::sites::{self, Share};

/// Blocks that were released this soon are temporary.
pub const TEMPORARY_NS: i64 = 10_000;

/// Of which time, or which blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// Live bytes at their peak.
    Peak,
    /// What the largest span of this operator had allocated and not released at its working peak.
    Span(String),
    /// Used bytes of devices at their peak.
    DevicePeak,
    /// Live bytes when the programs ended, before their processes tidied up.
    End,
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
    /// Frames, outermost first, folded; and the width.
    pub stacks: Vec<(Vec<Folded>, u64)>,
}

/// The stacks of a trace; what has none is there under a name that says so.
///
/// # Errors
/// A table cannot be read, no span has the name, or not every block has a row.
pub fn flame(trace: &Trace, at: &At) -> Result<Flame, Error> {
    let unit = if *at == At::Temporary { "blocks" } else { "bytes" };
    let (what, shares) = match at {
        At::Peak => ("live bytes at their peak".into(), at_peak(trace)?),
        At::DevicePeak => ("used bytes of devices at their peak".into(), at_device_peak(trace)?),
        At::End => ("live bytes at the end of the program".into(), at_end(trace)?),
        At::Span(name) => {
            let span = largest(trace, name)?;
            has_rows(trace, span.peak_ns)?;
            (
                format!("bytes allocated in {} (call {}) at its working peak", span.operator, span.call),
                in_span(trace, &span)?,
            )
        }
        At::Exit => {
            let what = "heap bytes never released".into();
            has_rows(trace, trace.meta().duration_ns)?;
            (what, of_rows(trace, unit, |group| group.unreleased, |record| record.free_ns.is_none())?)
        }
        At::Temporary => {
            let what = format!("heap blocks released within {} µs", TEMPORARY_NS / 1000);
            has_rows(trace, 0)?;
            (what, temporary(trace)?)
        }
    };
    named(trace, what, unit, shares)
}

/// Widths by site; `None` for what has no stack.
pub(super) type Shares = FxHashMap<Option<u64>, u64>;

fn at_peak(trace: &Trace) -> Result<Shares, Error> {
    let sites = sites::at_peak(trace)?;
    let mut shares: Shares = sites.iter().map(|share| (Some(share.row.site), share.bytes)).collect();
    rest(&mut shares, trace.meta().peak.live_bytes);
    Ok(shares)
}

fn at_end(trace: &Trace) -> Result<Shares, Error> {
    let all = trace.processes()?.iter().filter_map(|process| process.live_bytes_at_end).sum();
    let sites = sites::at_end(trace, all)?;
    let mut shares: Shares = sites.iter().map(|share| (Some(share.row.site), share.bytes)).collect();
    rest(&mut shares, all);
    Ok(shares)
}

fn at_device_peak(trace: &Trace) -> Result<Shares, Error> {
    let rows = trace.sites()?;
    let mut shares: Shares =
        rows.iter().map(|row| (Some(row.site), row.device_bytes_at_peak.unwrap_or(0))).collect();
    rest(&mut shares, trace.meta().peak.device_used_bytes.unwrap_or(0));
    Ok(shares)
}

/// Temporary blocks. Every block must have its row.
pub(super) fn temporary(trace: &Trace) -> Result<Shares, Error> {
    let is_short = |record: &AllocationRecord| {
        record.free_ns.is_some_and(|free| free.saturating_sub(record.alloc_ns) <= TEMPORARY_NS)
    };
    of_rows(trace, "blocks", |_| true, is_short)
}

/// What is left of `all` has no stack; nothing, if stacks that were sampled happen to account for
/// more.
fn rest(shares: &mut Shares, all: u64) {
    let known = shares.values().fold(0, |sum: u64, width| sum.saturating_add(*width));
    shares.insert(None, all.saturating_sub(known));
}

/// Every block that was live after a time must have its row.
fn has_rows(trace: &Trace, live_after_ns: i64) -> Result<(), Error> {
    trace.meta().rows.missing(live_after_ns).map_or(Ok(()), |why| Err(Error::NoRows(why.into())))
}

/// The span with the largest working peak among those whose operator, or its function, has this
/// name.
fn largest(trace: &Trace, name: &str) -> Result<SpanRow, Error> {
    let mut spans = trace.span_figures()?;
    let is_it = |span: &SpanRow| span.operator == name || span.operator.rsplit(':').next() == Some(name);
    let found = spans.iter().enumerate().filter(|(_, span)| is_it(span));
    match found.max_by_key(|(place, span)| (span.working_peak_bytes, std::cmp::Reverse(*place))) {
        Some((place, _)) => Ok(spans.swap_remove(place)),
        None => Err(Error::NoSpan { wanted: name.into(), known: known(&spans) }),
    }
}

/// The operators of spans, in words.
fn known(spans: &[SpanRow]) -> String {
    const MOST: usize = 10;
    let mut names: Vec<&str> = spans.iter().map(|span| span.operator.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    match names.len() {
        0 => "it has no spans at all".into(),
        many if many > MOST => {
            format!("it has those of {} and {} more", names[..MOST].join(", "), many - MOST)
        }
        _ => format!("it has those of {}", names.join(", ")),
    }
}

fn in_span(trace: &Trace, span: &SpanRow) -> Result<Shares, Error> {
    let mut inside = HashSet::from([span.span]);
    // Inner spans come later than those around them.
    for row in trace.span_figures()? {
        if row.parent.is_some_and(|parent| inside.contains(&parent)) {
            inside.insert(row.span);
        }
    }
    let weights = SiteWeights::of(trace.meta());
    let (mut shares, mut all) = (Shares::default(), 0u64);
    let filter = AllocationFilter { process: Some(span.process), spans: Some(&inside), ..Default::default() };
    let read = trace.allocations(filter, |row| {
        let counts = row.kind.is_heap() || row.kind.is_own_memory();
        let is_there = row.alloc_ns <= span.peak_ns && row.free_ns.is_none_or(|free| span.peak_ns < free);
        if counts && is_there {
            all = all.saturating_add(row.bytes);
            let of_site = if row.kind.is_heap() { weights.bytes(row.bytes) } else { row.bytes };
            add(&mut shares, row.site, of_site);
        }
    });
    read?;
    rest(&mut shares, all);
    Ok(shares)
}

/// Number of the heap blocks that count, or their bytes; they are in some of the row groups only.
fn of_rows(
    trace: &Trace,
    unit: &'static str,
    may_be_in: impl Fn(&BlockGroup) -> bool,
    counts: impl Fn(&AllocationRecord) -> bool + Sync,
) -> Result<Shares, Error> {
    let (in_bytes, weights) = (unit == "bytes", SiteWeights::of(trace.meta()));
    let mut groups = trace.block_groups()?;
    groups.retain(may_be_in);
    let begin = || (Shares::default(), 0u64);
    let parts = in_parallel(groups.len(), threads(), begin, |(shares, all): &mut (Shares, u64), index| {
        let read = groups[index].records(|record| {
            if record.kind.is_heap() && counts(&record) {
                let (width, of_site) = match in_bytes {
                    true => (record.bytes, weights.bytes(record.bytes)),
                    false => (1, weights.blocks(record.bytes)),
                };
                *all = all.saturating_add(width);
                add(shares, record.site, of_site);
            }
        });
        read.map_err(Error::from)
    })?;
    let (mut shares, mut all) = begin();
    for (part, of_part) in parts {
        part.into_iter().for_each(|(site, width)| add(&mut shares, site, width));
        all = all.saturating_add(of_part);
    }
    rest(&mut shares, all);
    Ok(shares)
}

/// Adds what a stack accounts for; what has none is the rest.
fn add(shares: &mut Shares, site: Option<u64>, width: u64) {
    if site.is_some() {
        let share = shares.entry(site).or_default();
        *share = share.saturating_add(width);
    }
}

fn named(trace: &Trace, what: String, unit: &'static str, mut shares: Shares) -> Result<Flame, Error> {
    shares.retain(|_, width| *width > 0);
    let without = shares.remove(&None);
    let leaves = trace.leaves(&shares.keys().copied().flatten().collect())?;
    let known: Vec<Share> = leaves
        .into_iter()
        .map(|(site, frame)| Share {
            row: SiteRow { site, frame, ..SiteRow::default() },
            bytes: shares.remove(&Some(site)).unwrap_or(0),
            estimated: 0,
        })
        .collect();
    let frames = trace.frames_of(known.iter().map(|share| share.row.frame))?;
    let groups = by_place(trace, &known)?;
    let mut widths: HashMap<Vec<Folded>, u64> = HashMap::new();
    let mut add = |stack: Vec<Folded>, width: u64| {
        let sum = widths.entry(stack).or_default();
        *sum = sum.saturating_add(width);
    };
    for (group, place) in groups.iter().zip(labels(groups.iter().map(|group| &group.place))) {
        for share in group.sites.iter().map(|site| &known[*site]) {
            add(folded(&stack(|frame| frames.get(&frame), share.row.frame), &place), share.bytes);
        }
    }
    let bare = |name: &str| vec![Folded::bare(name)];
    without.into_iter().for_each(|width| add(bare(sites::without_stack(trace.meta())), width));
    // Sites that the trace does not have.
    shares.into_values().for_each(|width| add(bare("an unknown place"), width));
    let mut stacks: Vec<(Vec<Folded>, u64)> = widths.into_iter().collect();
    stacks.sort();
    let total = stacks.iter().fold(0, |sum: u64, (_, width)| sum.saturating_add(*width));
    Ok(Flame { what, unit, total, stacks })
}
