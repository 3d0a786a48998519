//! Closing a trace whose recorder died.

use std::collections::HashMap;
use std::path::Path;

use crate::error::Result;
use crate::meta;
use crate::read::{AllocationFilter, Trace};
use crate::rows::AllocationRow;
use crate::table::Table;
use crate::write::{self, BlockColumns, BlockFile, Parts};

/// What [`recover`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// The trace was complete: nothing was changed.
    pub was_complete: bool,
    /// Blocks that were live when the recorder last wrote them.
    pub live_blocks: usize,
    /// The sum of their bytes, without those of devices.
    pub live_bytes: u64,
}

/// Closes the trace in `directory`: the live set that the recorder last wrote becomes rows without
/// a release, tables that are missing become empty ones, and a note in `meta.json` says so.
///
/// # Errors
/// As [`Trace::open`], and [`Error::Io`] if the directory cannot be written.
pub fn recover(directory: impl AsRef<Path>) -> Result<Recovered> {
    let directory = directory.as_ref();
    let trace = Trace::open(directory)?;
    if trace.meta().complete {
        return Ok(Recovered { was_complete: true, live_blocks: 0, live_bytes: 0 });
    }
    let (rows, last_ns) = (still_live(&trace)?, last_ns(&trace)?);
    if !rows.is_empty() {
        let mut parts = Parts::<BlockFile>::resume(directory, Table::Allocations)?;
        parts.write(&BlockColumns::of(&rows), rows.len())?;
        parts.close()?;
    }
    let live_bytes = rows.iter().filter(|row| !row.kind.is_of_driver()).map(|row| row.bytes).sum();
    let mut meta = trace.meta().clone();
    meta.recorded.insert(meta::CUT_SHORT.into(), "recovered".into());
    meta.notes.push(format!(
        "The recorder died; this is what it had written. Sums and peaks are those of the first {:.2} s, rows of released blocks go on to {:.2} s. The {} largest blocks that were live then have no release.",
        meta.duration_ns as f64 / 1e9,
        last_ns.max(meta.duration_ns) as f64 / 1e9,
        rows.len()
    ));
    write::complete(directory, &meta)?;
    Ok(Recovered { was_complete: false, live_blocks: rows.len(), live_bytes })
}

/// The last time in rows of blocks.
fn last_ns(trace: &Trace) -> Result<i64> {
    let groups = trace.block_groups()?;
    let times = groups.iter().flat_map(|group| [group.alloc_ns, group.free_ns]).flatten();
    Ok(times.map(|(_, last)| last).max().unwrap_or(0))
}

/// The live set, less blocks whose rows were written after it. Rows of released blocks may have no
/// address: of those that are the same in all else, only the number is known.
fn still_live(trace: &Trace) -> Result<Vec<AllocationRow>> {
    let mut rows = trace.live()?;
    let key = |row: &AllocationRow| (row.process, row.thread, row.alloc_ns, row.bytes, row.kind);
    let mut released: HashMap<_, usize> = rows.iter().map(|row| (key(row), 0)).collect();
    if !rows.is_empty() {
        trace.allocations(AllocationFilter::default(), |row| {
            if let Some(count) = released.get_mut(&key(&row)) {
                *count += 1;
            }
        })?;
    }
    rows.retain(|row| {
        let count = released.get_mut(&key(row)).filter(|count| **count > 0);
        count.map(|count| *count -= 1).is_none()
    });
    Ok(rows)
}
