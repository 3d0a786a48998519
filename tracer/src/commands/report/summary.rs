//! The summary: what needed memory, on one screen. At the end of a recording, and from `report`.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::composition::{Composition, composition};
use memtrace_analysis::report::document::Ranks;
use memtrace_analysis::report::json::row_notes;
use memtrace_analysis::report::operators::{Operator, operators as operators_of};
use memtrace_analysis::report::several::ranks;
use memtrace_trace::rows::ProcessRow;
use memtrace_trace::{Meta, Trace};

use super::places::Places;
use super::{children, devices, ending, killed, next, operators, refused, several};
use crate::terminal::clean;
use crate::units::{Bytes, measured};

/// Lines of the summary.
const LINES_MAX: usize = 25;
/// Places and operators that have a line, where there is room.
const ROWS_MAX: usize = 5;
/// Notes that are shown.
const NOTES_MAX: usize = 3;

/// The summary of a trace, in lines of at most `columns` columns.
pub fn text(trace: &Trace, columns: usize) -> Result<String> {
    let read = Read {
        trace,
        columns,
        processes: trace.processes()?,
        operators: operators_of(trace, ROWS_MAX)?,
        composition: composition(trace)?,
        ranks: ranks(trace)?,
    };
    // Where there is more to say, the tables are shorter, and then there are fewer notes.
    let mut room = Room { rows: ROWS_MAX, notes: NOTES_MAX };
    let mut text = read.with(room)?;
    while text.lines().count() > LINES_MAX
        && let Some(less) = room.less()
    {
        room = less;
        text = read.with(room)?;
    }
    Ok(text.lines().map(|line| fitted(line, columns) + "\n").collect())
}

/// How much of what may be long is shown.
#[derive(Clone, Copy)]
struct Room {
    /// Rows of each table.
    rows: usize,
    notes: usize,
}

impl Room {
    fn less(self) -> Option<Room> {
        match self {
            Room { rows: 2.., .. } => Some(Room { rows: self.rows - 1, ..self }),
            Room { notes: 1.., .. } => Some(Room { notes: self.notes - 1, ..self }),
            _ => None,
        }
    }
}

/// What the summary is made of.
struct Read<'a> {
    trace: &'a Trace,
    columns: usize,
    processes: Vec<ProcessRow>,
    operators: Vec<Operator>,
    composition: Composition,
    ranks: Option<Ranks>,
}

impl Read<'_> {
    fn with(&self, Room { rows, notes: shown }: Room) -> Result<String> {
        let (mut out, meta) = (String::new(), self.trace.meta());
        ending::lines(&mut out, self.trace)?;
        peak(&mut out, meta)?;
        self.ranks.iter().try_for_each(|ranks| several::line(&mut out, ranks))?;
        garbage(&mut out, meta)?;
        killed::lines(&mut out, self.trace, 1)?;
        refused::lines(&mut out, self.trace, 1)?;
        Places::of(self.trace.meta(), &self.composition, rows, self.columns).write(&mut out)?;
        operators::summary(&mut out, &self.operators, rows, self.columns)?;
        children::lines(&mut out, &self.processes)?;
        notes(&mut out, meta, shown, self.columns)?;
        next::commands(&mut out, self.trace, &self.operators, self.columns)?;
        Ok(out)
    }
}

fn peak(out: &mut String, meta: &Meta) -> Result<()> {
    let peak = &meta.peak;
    let mappings = peak.live_bytes.saturating_sub(peak.heap_bytes_at_peak);
    writeln!(
        out,
        "  peak     {:>9} live: {} heap + {} touched mappings",
        Bytes(peak.live_bytes),
        Bytes(peak.heap_bytes_at_peak),
        Bytes(mappings)
    )?;
    if let Some((driver, used)) = devices::at_peak(meta) {
        writeln!(out, "  device   {:>9} used; {} reserved by the driver", Bytes(used), Bytes(driver))?;
    }
    let resident = peak.resident_sum_bytes.max(peak.resident_bytes);
    write!(out, "  resident {:>9}", measured(resident))?;
    if let Some(limit) = meta.limit.as_ref().filter(|limit| limit.bytes > 0) {
        let share = 100.0 * resident as f64 / limit.bytes as f64;
        write!(out, ", {share:.0} % of the limit of {} ({})", Bytes(limit.bytes), clean(&limit.name))?;
    }
    writeln!(out)?;
    Ok(())
}

/// Only with `--gc`.
fn garbage(out: &mut String, meta: &Meta) -> Result<()> {
    let peak = &meta.peak;
    if let (Some(lower), Some(upper)) = (peak.gc_independent_bytes, peak.gc_independent_upper_bytes) {
        let known = Bytes(peak.garbage_at_peak_bytes.unwrap_or(0));
        let (lower, upper) = (Bytes(lower), Bytes(upper));
        writeln!(out, "  garbage  {known:>9} of the peak; GC-independent peak {lower} to {upper}")?;
    }
    Ok(())
}

/// At most two lines each; `report --details` has them whole.
fn notes(out: &mut String, meta: &Meta, shown: usize, columns: usize) -> Result<()> {
    let notes: Vec<String> = meta.notes.iter().chain(&row_notes(meta)).map(|note| clean(note)).collect();
    for note in notes.iter().take(shown) {
        let mut lines = wrapped(note, columns.saturating_sub(8));
        if lines.len() > 2 {
            lines.truncate(2);
            lines[1] = format!("{} …", lines[1]);
        }
        for (number, line) in lines.iter().enumerate() {
            writeln!(out, "  {} {line}", if number == 0 { "note:" } else { "     " })?;
        }
    }
    let more = notes.len().saturating_sub(shown);
    if more > 0 {
        let (word, plural) = (if shown == 0 { "" } else { "more " }, if more == 1 { "" } else { "s" });
        writeln!(out, "  note: {more} {word}note{plural}: report --details")?;
    }
    Ok(())
}

/// In lines of at most `columns` columns, broken at spaces.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

/// A line that is no longer: what does not fit ends in `…`.
pub fn fitted(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.into();
    }
    line.chars().take(columns - 1).chain(['…']).collect()
}
