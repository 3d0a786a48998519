//! The tables of a difference: cells as people read them.

use memtrace_analysis::report::diff::{Change, Diff, Figure, Operator, Process, SourceLine};

use crate::terminal::clean;
use crate::units::{Bytes, grouped};

/// Rows with what changed most first.
pub struct Table {
    /// What its rows are.
    pub title: &'static str,
    /// Names of its columns. All but the last hold numbers.
    pub heads: Vec<&'static str>,
    /// A text for each column.
    pub rows: Vec<Vec<String>>,
    /// Rows that the difference itself leaves out.
    pub left_out: usize,
}

/// Peaks and sums of the whole recordings.
pub fn figures(diff: &Diff) -> Table {
    let row = |figure: &Figure| {
        let shown = |number| if figure.unit == "bytes" { Bytes(number).to_string() } else { grouped(number) };
        let side = |number: Option<u64>| number.map_or_else(|| "unknown".to_owned(), shown);
        let change = &figure.change;
        vec![
            side(change.before),
            side(change.after),
            signed(change, shown),
            share(change),
            name(&figure.name),
        ]
    };
    let heads = vec!["before", "after", "change", "", "whole recording"];
    Table { title: "Whole recording", heads, rows: diff.figures.iter().map(row).collect(), left_out: 0 }
}

fn name(figure: &str) -> String {
    let name = match figure {
        "live_bytes" => "peak of live bytes",
        "heap_bytes" => "peak of heap bytes",
        "mapped_bytes" => "peak of mapped bytes, largest process",
        "resident_bytes" => "peak resident size, largest process",
        "resident_sum_bytes" => "peak resident size, all processes",
        "device_used_bytes" => "peak of used bytes on devices",
        "device_driver_bytes" => "peak of driver bytes on devices",
        "requested_bytes" => "bytes allocated",
        "allocations" => "blocks allocated",
        other => other,
    };
    name.into()
}

/// Operators that need more or less.
pub fn operators(diff: &Diff) -> Table {
    let row = |operator: &Operator| {
        let peak = &operator.working_peak_bytes;
        let mut what = format!("{} {}", operator.operator, operator.inputs);
        if let Some(place) = &operator.place {
            what = format!("{} ({place})", what.trim_end());
        }
        let one_time = signed(&operator.one_time_bytes, bytes);
        vec![signed(peak, bytes), share(peak), side(peak.before), side(peak.after), one_time, clean(&what)]
    };
    let rows = diff.operators.iter().map(row).collect();
    let heads = vec!["working peak", "", "before", "after", "one-time", "operator and input"];
    Table { title: "Operators", heads, rows, left_out: 0 }
}

/// Lines that allocate more or less.
pub fn lines(diff: &Diff) -> Table {
    let row = |line: &SourceLine| {
        let peak = &line.bytes_at_peak;
        let was = line.was.as_ref().map_or(String::new(), |was| format!(" (was {was})"));
        let allocated = signed(&line.requested_bytes, bytes);
        let what = clean(&format!("{}{was}", line.place));
        let change = format!("{}{}", if is_estimate(line) { "~" } else { "" }, signed(peak, bytes));
        vec![change, share(peak), side(peak.before), side(peak.after), allocated, what]
    };
    let mut rows: Vec<Vec<String>> = diff.lines.changed.iter().map(row).collect();
    let size = |change: &Change| change.difference().unsigned_abs();
    let unknown = &diff.lines.without_stack;
    if !unknown.is_none() {
        let (before, after) = (side(unknown.before), side(unknown.after));
        let what = "(without a call stack)".to_owned();
        let smaller = |line: &SourceLine| size(&line.bytes_at_peak) < size(unknown);
        let at = diff.lines.changed.iter().position(smaller).unwrap_or(rows.len());
        rows.insert(at, vec![signed(unknown, bytes), share(unknown), before, after, String::new(), what]);
    }
    let heads = vec!["at peak", "", "before", "after", "in all", "allocated at"];
    Table { title: "Lines", heads, rows, left_out: diff.lines.left_out }
}

/// True if more than a twentieth of what the line has at a peak is what sampled blocks stand for.
fn is_estimate(line: &SourceLine) -> bool {
    let (all, estimated) = (&line.bytes_at_peak, &line.estimated_bytes_at_peak);
    let of = |all: Option<u64>, estimated: Option<u64>| estimated.unwrap_or(0) > all.unwrap_or(0) / 20;
    of(all.before, estimated.before) || of(all.after, estimated.after)
}

/// Processes that need more or less.
pub fn processes(diff: &Diff) -> Table {
    let row = |process: &Process| {
        let peak = &process.peak_live_bytes;
        let resident = signed(&process.peak_resident_bytes, bytes);
        let command = clean(&process.command);
        vec![signed(peak, bytes), share(peak), side(peak.before), side(peak.after), resident, command]
    };
    let heads = vec!["live peak", "", "before", "after", "resident", "process"];
    Table { title: "Processes", heads, rows: diff.processes.iter().map(row).collect(), left_out: 0 }
}

fn bytes(number: u64) -> String {
    Bytes(number).to_string()
}

fn side(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), bytes)
}

/// `+10.0 MB`; `0` where nothing changed, and nothing where neither is known.
fn signed(change: &Change, shown: impl Fn(u64) -> String) -> String {
    if change.before.is_none() && change.after.is_none() {
        return String::new();
    }
    let difference = change.difference();
    let sign = match difference {
        0 => return "0".into(),
        1.. => '+',
        _ => '-',
    };
    format!("{sign}{}", shown(u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX)))
}

/// `+10.0 %`; nothing where there is nothing to compare with.
fn share(change: &Change) -> String {
    match (change.before, change.after) {
        (None | Some(0), Some(1..)) => "new".into(),
        (Some(1..), None) => "gone".into(),
        (Some(before @ 1..), Some(_)) if !change.is_none() => {
            format!("{:+.1} %", 100.0 * change.difference() as f64 / before as f64)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_a_sign_and_a_share() {
        let change = |before, after| Change { before, after };
        let both = |before, after| {
            let change = change(before, after);
            [signed(&change, bytes), share(&change)]
        };
        assert_eq!(both(Some(100_000), Some(110_000)), ["+10.0 kB", "+10.0 %"]);
        assert_eq!(both(Some(110_000), Some(100_000)), ["-10.0 kB", "-9.1 %"]);
        assert_eq!(both(Some(7), Some(7)), ["0", ""]);
        assert_eq!(both(None, Some(7)), ["+7 B", "new"]);
        assert_eq!(both(Some(7), None), ["-7 B", "gone"]);
        assert_eq!(both(None, None), ["", ""]);
        assert_eq!(both(Some(u64::MAX), Some(0)), ["-18.4 EB", "-100.0 %"]);
    }
}
