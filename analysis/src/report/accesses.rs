//! What sampled accesses say of the blocks that were live at the peak: which of them were used no
//! more.
//!
//! All of it is an estimate. A block that no sample met may have been used all the same, the more
//! likely the smaller it is and the fewer samples there were; so small blocks are not judged, and
//! the number of samples is always given. Page faults are no accesses here: a fault shows the first
//! touch of a page and of nothing after it.

use std::collections::{HashMap, HashSet};

use memtrace_trace::rows::AllocationRow;
use memtrace_trace::{AllocationFilter, Trace};

use crate::error::Error;
use crate::profile::places;
use crate::report::clock;
use crate::report::document::{self, RetainedButUnused};

/// Smaller blocks are not judged; from here on each has its own call stack too.
pub const JUDGED_FROM: u64 = 64 << 10;

/// Sites listed.
const SITES_MAX: usize = 100;

/// What was sampled in a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Loads, stores, and accesses of unknown kind.
    pub samples: u64,
    /// Those of them that met a live block.
    pub in_blocks: u64,
    /// Page faults: first touches.
    pub faults: u64,
    /// Those of them that met a live block.
    pub faults_in_blocks: u64,
    /// What was live at the peak and used no more; `None` where no accesses were sampled.
    pub retained: Option<Result<Retained, &'static str>>,
}

/// What was live at the peak in blocks from [`JUDGED_FROM`] on; mappings count with their whole
/// length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retained {
    /// Accesses that were sampled after the peak, in any block or none.
    pub samples_after: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of those in which no access after the peak was sampled.
    pub unused_bytes: u64,
    /// Of these, bytes of those in which no access was sampled at all.
    pub never_bytes: u64,
    /// The same by call stack, the most unused first; sites without any are left out.
    pub sites: Vec<UnusedSite>,
}

/// Unused blocks of one call stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnusedSite {
    /// Id in `sites`; `None` for blocks without a recorded stack.
    pub site: Option<u64>,
    /// How many.
    pub blocks: u64,
    /// Their bytes.
    pub unused_bytes: u64,
    /// Of these, in which no access was sampled at all.
    pub never_bytes: u64,
}

/// Names a block: who allocated it, and when. A thread allocates nothing twice at one time.
type Key = (u32, i64);

/// What was sampled; `None` if the recording requested no samples.
///
/// # Errors
/// A table cannot be read.
pub fn of(trace: &Trace) -> Result<Option<Accesses>, Error> {
    let source = trace.meta().recorded.get("accesses").map_or("off", String::as_str);
    if source == "off" {
        return Ok(None);
    }
    let peak_ns = trace.meta().peak.peak_ns;
    let mut all = Accesses::default();
    let mut after = 0;
    let mut last: HashMap<Key, i64> = HashMap::new();
    // The clock meets what takes time, not all that is used.
    if source == "clock" {
        return Ok(Some(all));
    }
    let sampled = trace.accesses(|row| {
        let block = row.block_thread.zip(row.block_ns);
        if row.access == "fault" {
            all.faults += 1;
            all.faults_in_blocks += u64::from(block.is_some());
            return;
        }
        all.samples += 1;
        after += u64::from(row.time_ns > peak_ns);
        if let Some(key) = block {
            all.in_blocks += 1;
            last.entry(key).and_modify(|time| *time = row.time_ns.max(*time)).or_insert(row.time_ns);
        }
    });
    sampled?;
    if all.samples > 0 {
        all.retained = Some(retained(trace, &last, after)?);
    }
    Ok(Some(all))
}

fn retained(
    trace: &Trace,
    last: &HashMap<Key, i64>,
    after: u64,
) -> Result<Result<Retained, &'static str>, Error> {
    let (rows, peak_ns) = (&trace.meta().rows, trace.meta().peak.peak_ns);
    let only_small =
        !rows.aggregate && rows.min_size_bytes <= JUDGED_FROM && rows.complete_from_ns <= peak_ns;
    if let Some(why) = rows.missing(peak_ns).filter(|_| !only_small) {
        return Ok(Err(why));
    }
    if rows.rotated_timeline > 0 {
        return Ok(Err("sampled accesses were deleted again to keep it within its size (--max-trace-size)"));
    }
    let processes = trace.processes()?;
    let gone = |process: &&memtrace_trace::rows::ProcessRow| {
        process.parted_ns.or(process.end_ns).is_some_and(|end| end < peak_ns)
    };
    let gone: HashSet<u32> = processes.iter().filter(gone).map(|process| process.process).collect();
    let mut retained = Retained { samples_after: after, ..Retained::default() };
    let mut unused: HashMap<Option<u64>, UnusedSite> = HashMap::new();
    let filter = AllocationFilter { min_bytes: JUDGED_FROM, ..AllocationFilter::default() };
    let read = trace.allocations(filter, |row| {
        if !was_live(&row, peak_ns) || gone.contains(&row.process) {
            return;
        }
        retained.bytes = retained.bytes.saturating_add(row.bytes);
        let accessed = last.get(&(row.thread, row.alloc_ns));
        if accessed.is_some_and(|time| *time > peak_ns) {
            return;
        }
        let site = unused.entry(row.site).or_insert(UnusedSite { site: row.site, ..UnusedSite::default() });
        site.blocks += 1;
        site.unused_bytes = site.unused_bytes.saturating_add(row.bytes);
        if accessed.is_none() {
            site.never_bytes = site.never_bytes.saturating_add(row.bytes);
        }
    });
    read?;
    let sum = |field: fn(&UnusedSite) -> u64| unused.values().map(field).fold(0, u64::saturating_add);
    retained.unused_bytes = sum(|site| site.unused_bytes);
    retained.never_bytes = sum(|site| site.never_bytes);
    retained.sites = unused.into_values().collect();
    retained.sites.sort_by_key(|site| (std::cmp::Reverse(site.unused_bytes), site.site));
    Ok(Ok(retained))
}

/// True for blocks that count as live, and were there at that time.
fn was_live(row: &AllocationRow, ns: i64) -> bool {
    let counts = row.kind.is_heap() || row.kind.is_own_memory();
    counts && row.alloc_ns <= ns && row.free_ns.is_none_or(|free| free > ns)
}

/// Where unused blocks were allocated, by site.
///
/// # Errors
/// A table cannot be read.
pub fn places(trace: &Trace, sites: &[UnusedSite]) -> Result<HashMap<u64, String>, Error> {
    places::places(trace, sites.iter().filter_map(|unused| unused.site))
}

/// For the report; `None` if nothing was requested.
pub(super) fn document(trace: &Trace) -> Result<Option<document::Accesses>, Error> {
    let Some(all) = of(trace)? else { return Ok(None) };
    let recorded = |name: &str| trace.meta().recorded.get(name).cloned();
    let estimate = match &all.retained {
        Some(Ok(retained)) => Some(RetainedButUnused::Estimate(unused(trace, retained)?)),
        Some(Err(why)) => Some(RetainedButUnused::Missing { why: (*why).into() }),
        None => None,
    };
    Ok(Some(document::Accesses {
        source: recorded("accesses"),
        events: recorded("accesses_events"),
        why: recorded("accesses_why"),
        samples: all.samples,
        samples_in_blocks: all.in_blocks,
        first_touches: all.faults,
        first_touches_in_blocks: all.faults_in_blocks,
        retained_but_unused: estimate,
        clock: clock::document(trace)?,
    }))
}

fn unused(trace: &Trace, retained: &Retained) -> Result<document::Unused, Error> {
    let listed = &retained.sites[..retained.sites.len().min(SITES_MAX)];
    let places = places(trace, listed)?;
    let site = |unused: &UnusedSite| document::UnusedSite {
        site: unused.site,
        place: unused.site.and_then(|site| places.get(&site).cloned()),
        blocks: unused.blocks,
        unused_bytes: unused.unused_bytes,
        never_accessed_bytes: unused.never_bytes,
    };
    Ok(document::Unused {
        estimate: true,
        judged_from_bytes: JUDGED_FROM,
        samples_after_peak: retained.samples_after,
        retained_bytes: retained.bytes,
        unused_bytes: retained.unused_bytes,
        never_accessed_bytes: retained.never_bytes,
        sites: listed.iter().map(site).collect(),
    })
}
