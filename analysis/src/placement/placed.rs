//! Blocks that got the memory they were to get, as a trace has them.

use std::collections::HashMap;

use memtrace_trace::rows::{AllocationRow, Kind, PlacementRow};
use memtrace_trace::{AllocationFilter, Trace};

use super::error::Error;

/// Names a block: process, thread, address and bytes.
type Name = (u32, u32, u64, u64);

/// The blocks whose placement is wanted: when a block of a name got a place, and whether it is the one
/// that is wanted.
pub struct Placed(HashMap<Name, Vec<(i64, bool)>>);

impl Placed {
    /// Reads them.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn read(trace: &Trace, is_wanted: impl Fn(&PlacementRow) -> bool) -> Result<Placed, Error> {
        let mut names: HashMap<Name, Vec<(i64, bool)>> = HashMap::new();
        trace.placements(|row| {
            if row.action == "place"
                && row.errno.is_none()
                && let Some((address, bytes)) = row.address.zip(row.bytes)
            {
                let name = (row.process, row.thread, address, bytes);
                names.entry(name).or_default().push((row.time_ns, is_wanted(&row)));
            }
        })?;
        names.values_mut().for_each(|places| places.sort_unstable());
        Ok(Placed(names))
    }

    /// True of a block that is one of them.
    pub fn has(&self, row: &AllocationRow) -> bool {
        let name = row.address.map(|address| (row.process, row.thread, address, row.bytes));
        let places = name.and_then(|name| self.0.get(&name)).map_or(&[][..], Vec::as_slice);
        // It got its place just before.
        let before = places.partition_point(|(time, _)| *time <= row.alloc_ns);
        places[..before].last().is_some_and(|(_, is_wanted)| *is_wanted)
            && matches!(row.kind, Kind::Malloc | Kind::Calloc | Kind::Aligned)
    }
}

/// Bytes of blocks that were placed in a tier and live at one time, at most. Pages that move between
/// tiers count where their block was placed.
///
/// # Errors
/// A table cannot be read.
pub fn most_bytes(trace: &Trace, tier: &str) -> Result<u64, Error> {
    let placed = Placed::read(trace, |row| row.tier.as_deref() == Some(tier))?;
    let mut changes = Vec::new();
    let filter = AllocationFilter { min_bytes: super::LEAST_BYTES, ..Default::default() };
    trace.allocations(filter, |row| {
        if placed.has(&row) {
            changes.push((row.alloc_ns, row.bytes as i64));
            changes.extend(row.free_ns.map(|ns| (ns, -(row.bytes as i64))));
        }
    })?;
    // What is released at a time makes room for what is allocated then.
    changes.sort_unstable();
    let live = changes.into_iter().scan(0, |live, (_, bytes)| {
        *live += bytes;
        Some(*live)
    });
    Ok(live.max().unwrap_or(0) as u64)
}
