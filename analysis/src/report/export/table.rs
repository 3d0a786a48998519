//! What each line of a program allocated, in the figures that heaptrack's tables have.

use std::cmp::Reverse;

use memtrace_trace::Trace;

use super::rest;
use crate::error::Error;
use crate::report::composition::{Place, by_place, labels};
use crate::report::flame;
use crate::report::sites::{Share, at_end, at_peak, without_stack};

/// The figures of a line of source, or of a function of which no line is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Live bytes at the peak of live bytes.
    pub at_peak: u64,
    /// Live bytes when the programs ended.
    pub at_end: u64,
    /// Blocks allocated.
    pub blocks: u64,
    /// Heap blocks that were released within 10 µs; `None` if not every block has a row.
    pub temporary: Option<u64>,
    /// The function, or what else is known of the place.
    pub function: String,
    /// Its source file, else its executable or library; empty if neither is known.
    pub file: String,
    /// The line in that file.
    pub line: Option<u32>,
}

/// Lines as the summary names them, those with most bytes at the peak first. One of them has what no
/// call stack accounts for: each figure adds up to that of the whole recording.
///
/// # Errors
/// A table cannot be read.
pub fn table(trace: &Trace) -> Result<Vec<Line>, Error> {
    let meta = trace.meta();
    let ends = trace.processes()?.into_iter().filter_map(|process| process.live_bytes_at_end);
    let end = ends.fold(0, u64::saturating_add);
    let (peaks, ends) = (at_peak(trace)?, at_end(trace, end)?);
    let mut temporary = match meta.rows.missing(0) {
        None => Some(flame::temporary(trace)?),
        Some(_) => None,
    };
    // Places are named by what was allocated there, not only by what was live at the peak.
    let weight = |share: &Share| if share.row.blocks > 0 { share.row.requested_bytes.max(1) } else { 0 };
    let all: Vec<Share> = peaks
        .iter()
        .map(|share| Share { row: share.row.clone(), bytes: weight(share), estimated: 0 })
        .collect();
    let groups = by_place(trace, &all)?;
    let mut lines = Vec::with_capacity(groups.len() + 1);
    for (group, label) in groups.iter().zip(labels(groups.iter().map(|group| &group.place))) {
        let sum =
            |of: &dyn Fn(usize) -> u64| group.sites.iter().map(|at| of(*at)).fold(0, u64::saturating_add);
        let soon = temporary.as_mut().map(|temporary| {
            let sites = group.sites.iter();
            sites.filter_map(|at| temporary.remove(&Some(all[*at].row.site))).fold(0, u64::saturating_add)
        });
        lines.push(Line {
            at_peak: sum(&|at| peaks[at].bytes),
            at_end: sum(&|at| ends[at].bytes),
            blocks: sum(&|at| all[at].row.blocks),
            temporary: soon,
            ..at(&group.place, label)
        });
    }
    lines.push(Line {
        at_peak: rest(meta.peak.live_bytes, lines.iter().map(|line| line.at_peak)),
        at_end: rest(end, lines.iter().map(|line| line.at_end)),
        blocks: rest(meta.totals.allocations, lines.iter().map(|line| line.blocks)),
        temporary: temporary.map(|left| left.into_values().fold(0, u64::saturating_add)),
        function: without_stack(meta).into(),
        ..Line::default()
    });
    lines.sort_by_cached_key(|line| {
        (Reverse([line.at_peak, line.at_end, line.blocks]), line.file.clone(), line.line)
    });
    Ok(lines)
}

fn at(place: &Place, label: String) -> Line {
    match place {
        Place::Line { file, line, function } => {
            Line { function: function.clone(), file: file.clone(), line: Some(*line), ..Line::default() }
        }
        Place::Function { name, module } => {
            Line { function: name.clone(), file: module.clone(), ..Line::default() }
        }
        _ => Line { function: label, ..Line::default() },
    }
}
