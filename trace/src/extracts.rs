//! Parts of tables for whoever reads many traces and needs little of each: some columns, and what matters of the rows.

use std::collections::{HashMap, HashSet};

use arrow_array::Array;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};

use crate::decode::{self, Columns, value};
use crate::error::Result;
use crate::pruning;
use crate::reader::Trace;
use crate::rows::FrameRow;
use crate::schema::Table;

/// What a row of `timeline` says of the memory that a process held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Index into `processes`.
    pub process: u32,
    /// When.
    pub time_ns: i64,
    /// Heap bytes not yet released.
    pub heap_bytes: u64,
    /// Resident bytes; `None` where they were not looked at.
    pub resident_bytes: Option<u64>,
}

/// What a row of `processes` says of how the others are to be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Index of the process.
    pub process: u32,
    /// Events of it that were lost.
    pub lost_events: u64,
    /// What its environment told the allocator, where that was recorded.
    pub allocator_settings: Option<String>,
}

impl Trace {
    /// What `processes` says of how the other tables are to be taken.
    pub fn health(&self) -> Result<Vec<Health>> {
        const COLUMNS: [&str; 3] = ["process", "lost_events", "allocator_settings"];
        self.rows_of(Table::Processes, &COLUMNS, |_| true, health)
    }

    /// What `timeline` says of the time until `until_ns`, that included, in the order of its rows.
    pub fn held_until(&self, until_ns: i64) -> Result<Vec<Held>> {
        const COLUMNS: [&str; 4] = ["process", "time_ns", "heap_bytes", "resident_bytes"];
        let begins = |group: &_| pruning::times(group, "time_ns").is_none_or(|(first, _)| first <= until_ns);
        let mut rows = self.rows_of(Table::Timeline, &COLUMNS, begins, held)?;
        rows.retain(|row: &Held| row.time_ns <= until_ns);
        Ok(rows)
    }

    /// The innermost frame of each of these sites; a site that the trace does not have is left out.
    pub fn leaves(&self, sites: &HashSet<u64>) -> Result<HashMap<u64, u32>> {
        if sites.is_empty() {
            return Ok(HashMap::new());
        }
        let leaves = self.rows_of(
            Table::Sites,
            &["site", "frame"],
            |_| true,
            |columns| {
                let rows = columns
                    .required::<UInt64Type>("site")?
                    .iter()
                    .zip(columns.required::<UInt32Type>("frame")?);
                Ok(rows
                    .filter(|(site, _)| sites.contains(site))
                    .map(|(&site, &frame)| (site, frame))
                    .collect())
            },
        )?;
        Ok(leaves.into_iter().collect())
    }

    /// The frames of the call stacks whose innermost frames these are, by number.
    ///
    /// A frame's callers come before it; where they do not, the table is damaged and the stack ends.
    pub fn frames_of(&self, leaves: impl IntoIterator<Item = u32>) -> Result<HashMap<u32, FrameRow>> {
        let mut leaves = leaves.into_iter().peekable();
        if leaves.peek().is_none() {
            return Ok(HashMap::new());
        }
        let parents = self.rows_of(
            Table::Frames,
            &["frame", "parent"],
            |_| true,
            |columns| {
                let parents = columns.nullable::<UInt32Type>("parent")?;
                let frames = columns.required::<UInt32Type>("frame")?.iter().enumerate();
                Ok(frames.filter_map(|(row, &frame)| Some((frame, value(parents, row)?))).collect())
            },
        )?;
        let parents: HashMap<u32, u32> =
            parents.into_iter().filter(|(frame, parent)| parent < frame).collect();
        let mut wanted = HashSet::new();
        for leaf in leaves {
            let mut next = Some(leaf);
            while let Some(frame) = next.filter(|frame| wanted.insert(*frame)) {
                next = parents.get(&frame).copied();
            }
        }
        let schema = Table::Frames.schema();
        let frames = self.rows_of(
            Table::Frames,
            &crate::schema::names(&schema),
            |_| true,
            |columns| decode::frames(columns, |frame| wanted.contains(&frame)),
        )?;
        Ok(frames.into_iter().map(|row| (row.frame, row)).collect())
    }
}

fn health(columns: &Columns) -> Result<Vec<Health>> {
    let process = columns.required::<UInt32Type>("process")?;
    let lost_events = columns.required::<UInt64Type>("lost_events")?;
    let settings = columns.added_text("allocator_settings")?;
    let row = |i: usize| Health {
        process: process[i],
        lost_events: lost_events[i],
        allocator_settings: settings.is_valid(i).then(|| settings.value(i).to_owned()),
    };
    Ok((0..columns.rows()).map(row).collect())
}

fn held(columns: &Columns) -> Result<Vec<Held>> {
    let process = columns.required::<UInt32Type>("process")?;
    let time_ns = columns.required::<Int64Type>("time_ns")?;
    let heap_bytes = columns.required::<UInt64Type>("heap_bytes")?;
    let resident_bytes = columns.nullable::<UInt64Type>("resident_bytes")?;
    let row = |i: usize| Held {
        process: process[i],
        time_ns: time_ns[i],
        heap_bytes: heap_bytes[i],
        resident_bytes: value(resident_bytes, i),
    };
    Ok((0..columns.rows()).map(row).collect())
}
