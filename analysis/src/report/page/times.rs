//! The times at which the page knows what was live: evenly spread ones, and those of peaks.

use std::collections::{BTreeMap, BTreeSet};

use memtrace_trace::Trace;

use super::spans::Spans;
use crate::error::Error;

/// Times that are evenly spread.
const EVEN: i64 = 160;
/// Times of the largest peaks of processes, and as many of spans.
pub const PEAKS: usize = 40;
/// Changes of live bytes that there may be, by call stack and time.
const CELLS: usize = 1 << 21;

/// The times, in their order; the last is the end of the trace.
pub fn choose(trace: &Trace, spans: &Spans, sites: usize) -> Result<Vec<i64>, Error> {
    let meta = trace.meta();
    let end = meta.duration_ns.max(1);
    let room = CELLS / sites.max(1);
    let even = EVEN.min((room as i64 / 2).max(20));
    let mut times: BTreeSet<i64> =
        (1..=even).map(|part| (i128::from(end) * i128::from(part) / i128::from(even)) as i64).collect();
    times.insert(meta.peak.peak_ns);
    let peaks = PEAKS.min(room / 4);
    times.extend(largest(peaks_of_processes(trace)?, peaks));
    times.extend(largest(spans.peaks(), peaks));
    Ok(times.into_iter().filter(|time| (0..=end).contains(time)).collect())
}

/// Rows that were written when a process reached a new peak: the last of them in each stretch of
/// time.
fn peaks_of_processes(trace: &Trace) -> Result<Vec<(u64, i64)>, Error> {
    let length = (trace.meta().duration_ns / EVEN).max(1);
    let mut stretches: BTreeMap<i64, (u64, i64)> = BTreeMap::new();
    trace.each_timeline(|row| {
        if row.reason == "peak" {
            let largest = stretches.entry(row.time_ns / length).or_default();
            *largest = (*largest).max((row.live_bytes, row.time_ns));
        }
    })?;
    Ok(stretches.into_values().collect())
}

fn largest(mut peaks: Vec<(u64, i64)>, most: usize) -> impl Iterator<Item = i64> {
    peaks.sort_unstable_by(|a, b| b.cmp(a));
    peaks.truncate(most);
    peaks.into_iter().map(|(_, time)| time)
}
