//! Calls that were refused memory, and where memory was allocated then.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::profile::places::places;
use memtrace_trace::{Refused, Trace};

use crate::terminal::clean;
use crate::units::{Bytes, grouped};

/// The largest calls, at most `most`, each with at most `most` places.
pub fn lines(out: &mut String, trace: &Trace, most: usize) -> Result<()> {
    let mut calls: Vec<&Refused> = trace.meta().refused.iter().collect();
    calls.sort_by_key(|call| (std::cmp::Reverse(call.requested_bytes), call.time_ns));
    let more = calls.len().saturating_sub(most);
    calls.truncate(most);
    let live = calls.iter().flat_map(|call| call.sites.iter().map(|share| share.site));
    let places = places(trace, calls.iter().filter_map(|call| call.site).chain(live))?;
    let place = |site: u64| places.get(&site).map_or("an unknown place".into(), |place| clean(place));
    for call in calls {
        let at = call.site.map_or("an unknown place".into(), place);
        writeln!(out, "  REFUSED {} at {at}", Bytes(call.requested_bytes))?;
        let limit = call.limit_bytes.map(|limit| format!(" (limit on address space {})", Bytes(limit)));
        let limit = limit.unwrap_or_default();
        writeln!(out, "    process {} had {} live then{limit}", call.pid, Bytes(call.live_bytes))?;
        for share in call.sites.iter().take(most) {
            writeln!(out, "    {:>9} allocated at {}", Bytes(share.bytes), place(share.site))?;
        }
    }
    if more > 0 {
        writeln!(out, "    and at least {} more calls were refused memory", grouped(more as u64))?;
    }
    Ok(())
}
