//! What the peak was made of, by place in the program, with the text of the lines.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::composition::{Composition, Part, labels};
use memtrace_analysis::report::sites::are_sampled;
use memtrace_trace::Meta;

use super::source_text::SourceText;
use crate::terminal::clean;
use crate::units::Bytes;

/// Columns before the place.
const BEFORE: usize = 22;

/// The rows of the table: they add up to the peak.
pub struct Places {
    heading: &'static str,
    sum: u64,
    rows: Vec<Row>,
    columns: usize,
}

struct Row {
    bytes: u64,
    is_estimate: bool,
    label: String,
    text: String,
}

impl Places {
    /// The `most` largest places, and one row for all others.
    pub fn of(meta: &Meta, composition: &Composition, most: usize, columns: usize) -> Places {
        let shown = &composition.parts[..composition.parts.len().min(most)];
        let others = &composition.parts[shown.len()..];
        let mut source = SourceText::of(meta);
        let labels = labels(shown.iter().map(|part| &part.place));
        let mut rows: Vec<Row> = shown
            .iter()
            .zip(labels)
            .map(|(part, label)| Row {
                bytes: part.bytes,
                is_estimate: is_estimate(part.bytes, part.estimated),
                label: clean(&label),
                text: source.shown(part.place.source()),
            })
            .collect();
        let sum = |of: fn(&Part) -> u64| others.iter().map(of).fold(0, u64::saturating_add);
        let (rest, estimated) = (sum(|part| part.bytes), sum(|part| part.estimated));
        // More than all of the heap is of processes without a probe.
        let may_be_heap = composition.unknown <= meta.peak.heap_bytes_at_peak;
        let unknown = if may_be_heap && are_sampled(meta) {
            "small blocks that were not sampled"
        } else {
            "no call stack"
        };
        let places = format!("{} other place{}", others.len(), if others.len() == 1 { "" } else { "s" });
        let unknown = (composition.unknown, false, unknown.into());
        for (bytes, is_estimate, label) in [(rest, is_estimate(rest, estimated), places), unknown] {
            if bytes > 0 {
                rows.push(Row { bytes, is_estimate, label, text: String::new() });
            }
        }
        Places { heading: "at peak", sum: composition.peak, rows, columns }
    }

    /// Nothing, if there is no row.
    pub fn write(&self, out: &mut String) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let with_text = self.rows.iter().filter(|row| !row.text.is_empty());
        let longest = with_text.map(|row| row.label.chars().count()).max().unwrap_or(0);
        let most = (self.columns - BEFORE) / 2 + 4;
        writeln!(out)?;
        writeln!(out, "  {:>9} {:>7}  allocated at", self.heading, "share")?;
        for row in &self.rows {
            let share = format!("{:.1} %", 100.0 * row.bytes as f64 / self.sum.max(1) as f64);
            let width = if row.text.is_empty() { 0 } else { longest.min(most) };
            let bytes = figure(row.bytes, row.is_estimate);
            let line = format!("  {bytes:>9} {share:>7}  {:<width$}", row.label);
            if row.text.is_empty() {
                writeln!(out, "{}", line.trim_end())?;
            } else {
                writeln!(out, "{line}  {}", row.text)?;
            }
        }
        estimates(out, self.rows.iter().any(|row| row.is_estimate))
    }
}

/// True if more than a twentieth of bytes is what sampled blocks stand for.
pub fn is_estimate(bytes: u64, estimated: u64) -> bool {
    estimated > bytes / 20
}

/// Bytes, and whether they are known.
pub fn figure(bytes: u64, is_estimate: bool) -> String {
    format!("{}{}", if is_estimate { "~" } else { "" }, Bytes(bytes))
}

/// What the sign at a figure means, if there is one.
pub fn estimates(out: &mut String, any: bool) -> Result<()> {
    if any {
        writeln!(out, "  ~ an estimate: small blocks are sampled; record --stacks all counts each")?;
    }
    Ok(())
}
