//! Which blocks the time of a program goes to, as samples of its threads' clocks say.
//!
//! A sample names the instruction that took the time and the block it touched. Shares of samples are
//! shares of the time in which threads ran their own code (not the kernel's, page faults among it),
//! memory that is in a cache included: of n samples a share p is off by about √(p(1 − p)/n).

use std::collections::HashMap;

use memtrace_trace::Trace;

use crate::error::Error;
use crate::profile::places;
use crate::report::accesses::JUDGED_FROM;
use crate::report::document;

/// Call stacks listed.
const SITES_MAX: usize = 100;

/// Samples of the clock, and where they fell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// All of them that the trace still has.
    pub samples: u64,
    /// Those whose instruction is known.
    pub known: u64,
    /// Those whose instruction touched memory, but for the stack by its pointer.
    pub touching: u64,
    /// Those of them whose address is gone, as in a chain of pointers.
    pub without_address: u64,
    /// In live blocks.
    pub in_blocks: u64,
    /// In live blocks from [`JUDGED_FROM`] on.
    pub in_large_blocks: u64,
    /// Live blocks by call stack, most samples first.
    pub sites: Vec<TimedSite>,
}

/// Samples in the blocks of one call stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimedSite {
    /// Id in `sites`; `None` for blocks without a recorded stack.
    pub site: Option<u64>,
    /// Samples.
    pub samples: u64,
    /// Of them, stores.
    pub stores: u64,
    /// The largest block's bytes.
    pub block_bytes: u64,
}

/// Where the time went; `None` if no clock was sampled.
///
/// # Errors
/// The table cannot be read.
pub fn of(trace: &Trace) -> Result<Option<Times>, Error> {
    let recorded = &trace.meta().recorded;
    let is_clock = recorded.get("accesses").is_some_and(|source| source == "clock");
    if !is_clock || recorded.contains_key("accesses_why") {
        return Ok(None);
    }
    let mut times = Times::default();
    let mut sites: HashMap<Option<u64>, TimedSite> = HashMap::new();
    trace.accesses(|row| {
        times.samples += 1;
        times.known += u64::from(row.access != "unknown");
        let touching = row.access == "load" || row.access == "store";
        times.touching += u64::from(touching);
        times.without_address += u64::from(touching && row.address.is_none());
        let Some(bytes) = row.block_bytes else { return };
        times.in_blocks += 1;
        times.in_large_blocks += u64::from(bytes >= JUDGED_FROM);
        let site = sites.entry(row.site).or_insert(TimedSite { site: row.site, ..TimedSite::default() });
        site.samples += 1;
        site.stores += u64::from(row.access == "store");
        site.block_bytes = site.block_bytes.max(bytes);
    })?;
    times.sites = sites.into_values().collect();
    times.sites.sort_by_key(|site| (std::cmp::Reverse(site.samples), site.site));
    Ok(Some(times))
}

/// Where the blocks were allocated, by site.
///
/// # Errors
/// A table cannot be read.
pub fn places(trace: &Trace, sites: &[TimedSite]) -> Result<HashMap<u64, String>, Error> {
    places::places(trace, sites.iter().filter_map(|timed| timed.site))
}

/// For the report; `None` if no clock was sampled.
pub(super) fn document(trace: &Trace) -> Result<Option<document::Times>, Error> {
    let Some(times) = of(trace)? else { return Ok(None) };
    let listed = &times.sites[..times.sites.len().min(SITES_MAX)];
    let places = places(trace, listed)?;
    let site = |timed: &TimedSite| document::TimedSite {
        site: timed.site,
        place: timed.site.and_then(|site| places.get(&site).cloned()),
        samples: timed.samples,
        stores: timed.stores,
        largest_block_bytes: timed.block_bytes,
    };
    Ok(Some(document::Times {
        samples: times.samples,
        known: times.known,
        touching_memory: times.touching,
        without_address: times.without_address,
        in_blocks: times.in_blocks,
        large_from_bytes: JUDGED_FROM,
        in_large_blocks: times.in_large_blocks,
        sites: listed.iter().map(site).collect(),
    }))
}
