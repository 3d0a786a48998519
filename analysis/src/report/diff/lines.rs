//! Lines of the program in both traces.

use std::cmp::Reverse;

use memtrace_trace::Trace;

use super::document::{Change, Lines, SourceLine};
use super::moved::{self, Spot};
use crate::error::Error;
use crate::report::composition::{Group, by_place, labels};
use crate::report::sites::{Share, at_peak};

/// Lines that a difference lists.
const LINES_MAX: usize = 1000;

/// What lines allocated in one trace, and in the other.
pub fn changes(before: &Trace, after: &Trace) -> Result<Lines, Error> {
    let (before, after) = (Side::read(before)?, Side::read(after)?);
    let pairs = moved::pairs(&before.spots, &after.spots);
    let mut all: Vec<SourceLine> = pairs.iter().map(|pair| line(&before, &after, *pair)).collect();
    let known = all.len();
    all.retain(|line| !line.is_same());
    let same = known - all.len();
    all.sort_by_key(|line| {
        let change = |change: Change| Reverse(change.difference().unsigned_abs());
        (change(line.bytes_at_peak), change(line.requested_bytes), change(line.blocks), line.place.clone())
    });
    let left_out = all.len().saturating_sub(LINES_MAX);
    all.truncate(LINES_MAX);
    let without_stack = Change { before: Some(before.unknown), after: Some(after.unknown) };
    Ok(Lines { changed: all, left_out, same, without_stack })
}

/// The lines of one trace.
struct Side {
    lines: Vec<Line>,
    /// Where they are, for the pairing.
    spots: Vec<Spot>,
    /// Live bytes at the peak without a call stack.
    unknown: u64,
}

struct Line {
    label: String,
    source: Option<(String, u32)>,
    at_peak: u64,
    estimated: u64,
    requested: u64,
    blocks: u64,
}

impl Side {
    fn read(trace: &Trace) -> Result<Side, Error> {
        let at_peak = at_peak(trace)?;
        let requested = |share: &Share| {
            let bytes = share.row.requested_bytes.max(share.bytes);
            Share { row: share.row.clone(), bytes, estimated: 0 }
        };
        let requested: Vec<Share> = at_peak.iter().map(requested).collect();
        let groups = by_place(trace, &requested)?;
        let labels = labels(groups.iter().map(|group| &group.place));
        let lines: Vec<Line> =
            groups.iter().zip(labels).map(|(group, label)| Line::of(group, label, &at_peak)).collect();
        let spots = groups.iter().map(|group| Spot::of(&group.place, group.bytes, &trace.meta().cwd));
        let known = lines.iter().fold(0, |sum: u64, line| sum.saturating_add(line.at_peak));
        let unknown = trace.meta().peak.live_bytes.saturating_sub(known);
        Ok(Side { spots: spots.collect(), lines, unknown })
    }
}

impl Line {
    fn of(group: &Group, label: String, at_peak: &[Share]) -> Line {
        let sum = |of: fn(&Share) -> u64| {
            group.sites.iter().fold(0, |sum: u64, site| sum.saturating_add(of(&at_peak[*site])))
        };
        Line {
            label,
            source: group.place.source().map(|(file, line)| (file.to_owned(), line)),
            at_peak: sum(|share| share.bytes),
            estimated: sum(|share| share.estimated),
            requested: sum(|share| share.row.requested_bytes),
            blocks: sum(|share| share.row.blocks),
        }
    }
}

fn line(before: &Side, after: &Side, pair: (Option<usize>, Option<usize>)) -> SourceLine {
    let was = pair.0.map(|at| &before.lines[at]);
    let is = pair.1.map(|at| &after.lines[at]);
    let shown = is.or(was);
    let label = |line: &Line| line.label.clone();
    SourceLine {
        place: shown.map(label).unwrap_or_default(),
        file: shown.and_then(|line| line.source.clone()).map(|(file, _)| file),
        line: shown.and_then(|line| line.source.as_ref()).map(|(_, line)| *line),
        was: was.zip(is).filter(|(was, is)| was.label != is.label).map(|(was, _)| label(was)),
        bytes_at_peak: Change::of(was, is, |line| line.at_peak),
        estimated_bytes_at_peak: Change::of(was, is, |line| line.estimated),
        requested_bytes: Change::of(was, is, |line| line.requested),
        blocks: Change::of(was, is, |line| line.blocks),
    }
}
