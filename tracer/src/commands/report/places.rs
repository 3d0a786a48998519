//! What the peak was made of, by place in the program, with the text of the lines.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::composition::{Composition, labels};
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
                label: clean(&label),
                text: source.shown(part.place.source()),
            })
            .collect();
        let rest = others.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes));
        let unknown = if meta.recorded.get("stacks").is_some_and(|how| how == "auto") {
            "small blocks that were not sampled"
        } else {
            "no call stack"
        };
        let places = format!("{} other place{}", others.len(), if others.len() == 1 { "" } else { "s" });
        for (bytes, label) in [(rest, places), (composition.unknown, unknown.into())] {
            if bytes > 0 {
                rows.push(Row { bytes, label, text: String::new() });
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
            let line = format!("  {:>9} {share:>7}  {:<width$}", Bytes(row.bytes), row.label);
            if row.text.is_empty() {
                writeln!(out, "{}", line.trim_end())?;
            } else {
                writeln!(out, "{line}  {}", row.text)?;
            }
        }
        Ok(())
    }
}
