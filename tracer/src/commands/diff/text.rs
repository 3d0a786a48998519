//! A difference on a terminal.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::diff::{Diff, Side};

use super::tables::{Table, figures, lines, operators, processes};
use crate::commands::report::fitted;
use crate::terminal::clean;

/// Rows of each table.
const ROWS_MAX: usize = 10;

/// The difference, in lines of at most `columns` columns.
pub fn text(diff: &Diff, columns: usize) -> Result<String> {
    let mut out = String::new();
    side(&mut out, "before", &diff.before)?;
    side(&mut out, "after", &diff.after)?;
    table(&mut out, &figures(diff))?;
    let changed = [operators(diff), lines(diff), processes(diff)];
    for each in changed.iter().filter(|table| !table.rows.is_empty()) {
        table(&mut out, each)?;
    }
    if changed.iter().all(|table| table.rows.is_empty()) {
        writeln!(out, "\n  No line, operator or process allocates more or less.")?;
    }
    if out.lines().any(|line| line.trim_start().starts_with('~')) {
        writeln!(out, "  ~ an estimate: small blocks are sampled; record --stacks all counts each")?;
    }
    for note in &diff.notes {
        writeln!(out, "\n  note: {}", clean(note))?;
    }
    Ok(out.lines().map(|line| fitted(line, columns) + "\n").collect())
}

fn side(out: &mut String, which: &str, side: &Side) -> Result<()> {
    writeln!(out, "  {which:<6}  {}: {}", clean(&side.trace), clean(&side.command.join(" ")))?;
    Ok(())
}

fn table(out: &mut String, table: &Table) -> Result<()> {
    let shown = &table.rows[..table.rows.len().min(ROWS_MAX)];
    let width = |column: usize| {
        let texts = shown.iter().map(|row| row[column].chars().count());
        texts.chain([table.heads[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.heads.len()).map(width).collect();
    writeln!(out)?;
    row(out, &table.heads, &widths)?;
    for cells in shown {
        row(out, &cells.iter().map(String::as_str).collect::<Vec<_>>(), &widths)?;
    }
    let more = table.rows.len() - shown.len() + table.left_out;
    if more > 0 {
        writeln!(out, "  and {more} more: --json lists more")?;
    }
    Ok(())
}

/// Numbers end where their column ends; the last text begins there.
fn row(out: &mut String, cells: &[&str], widths: &[usize]) -> Result<()> {
    let mut line = String::from(" ");
    for (number, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if number + 1 == cells.len() {
            write!(line, "  {cell}")?;
        } else {
            write!(line, " {cell:>width$}")?;
        }
    }
    writeln!(out, "{}", line.trim_end())?;
    Ok(())
}
