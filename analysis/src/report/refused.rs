//! Calls that were refused memory, as the report has them.

use memtrace_trace::Trace;

use crate::error::Error;
use crate::profile::places;
use crate::report::document::{Refused, SiteShare};

/// Those of a trace.
pub fn document(trace: &Trace) -> Result<Vec<Refused>, Error> {
    let calls = &trace.meta().refused;
    let wanted = calls.iter().flat_map(|call| call.site.into_iter().chain(call.sites.iter().map(|s| s.site)));
    let places = places::places(trace, wanted)?;
    let call = |call: &memtrace_trace::Refused| Refused {
        pid: call.pid,
        command: call.command.clone(),
        seconds: call.time_ns as f64 / 1e9,
        requested_bytes: call.requested_bytes,
        place: call.site.and_then(|site| places.get(&site).cloned()),
        limit_bytes: call.limit_bytes,
        live_bytes: call.live_bytes,
        operators: call.operators.clone(),
        sites: call
            .sites
            .iter()
            .map(|share| SiteShare {
                site: share.site,
                place: places.get(&share.site).cloned(),
                bytes: share.bytes,
            })
            .collect(),
    };
    Ok(calls.iter().map(call).collect())
}
