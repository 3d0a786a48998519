//! What processes hold that swap or the limit of a control group is about.

use memtrace_trace::rows::TimelineRow;
use memtrace_trace::{Result, Trace};

/// Resident bytes of a process at a time, without pages of files where they are known: the kernel takes
/// these back first.
pub fn held(row: &TimelineRow) -> Option<u64> {
    match &row.pages {
        Some(pages) => Some(pages.anon + pages.shmem),
        None => row.resident_bytes,
    }
}

/// The most that one process of a run held.
///
/// # Errors
/// The table cannot be read.
pub fn most_held(trace: &Trace) -> Result<u64> {
    Ok(trace.timeline()?.iter().filter_map(held).max().unwrap_or(0))
}
