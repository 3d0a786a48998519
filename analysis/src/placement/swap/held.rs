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

/// The most bytes of one process that were in swap; 0 where that is not known, without a kernel side.
///
/// # Errors
/// The table cannot be read.
pub fn most_in_swap(trace: &Trace) -> Result<f64> {
    let rows = trace.timeline()?;
    let most = rows.iter().filter_map(|row| Some(row.pages.as_ref()?.swap)).max();
    Ok(most.unwrap_or(0) as f64)
}

/// The most that one process of a run held; `None` if the program departed from its plan, of which that
/// then says nothing.
///
/// # Errors
/// A table cannot be read.
pub fn most_held(trace: &Trace) -> Result<Option<u64>> {
    let mut departed = false;
    trace.placements(|row| departed |= row.action == "depart")?;
    let most = trace.timeline()?.iter().filter_map(held).max();
    Ok(most.filter(|_| !departed))
}
