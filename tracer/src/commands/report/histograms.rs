//! `report --histograms`: heap blocks by size and by lifetime.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::histograms::{Bin, Histograms, histograms};
use memtrace_trace::Trace;

use crate::terminal::print;
use crate::units::{Bytes, grouped};

/// Columns of the longest bar.
const BAR: u64 = 40;

/// Prints them, as tables or as JSON.
pub fn show(trace: &Trace, json: bool) -> Result<()> {
    let histograms = histograms(trace)?;
    if json {
        return super::json::print(&histograms);
    }
    print(&text(&histograms)?)
}

fn text(histograms: &Histograms) -> Result<String> {
    let mut out = String::new();
    writeln!(out, "{} heap blocks of {}", grouped(histograms.blocks), Bytes(histograms.bytes))?;
    let bytes = |bound: u64| Bytes(bound).to_string();
    table(&mut out, "size from", &histograms.sizes, &bytes)?;
    table(&mut out, "live for", &histograms.lifetimes, &time)?;
    if histograms.unreleased_blocks > 0 {
        row(&mut out, "not released", histograms.unreleased_blocks, histograms.unreleased_bytes, 0)?;
    }
    Ok(out)
}

fn table(out: &mut String, title: &str, bins: &[Bin], bound: &dyn Fn(u64) -> String) -> Result<()> {
    let most = bins.iter().map(|bin| bin.blocks).max().unwrap_or(0).max(1);
    writeln!(out, "\n  {title:>12} {:>15} {:>9}", "blocks", "bytes")?;
    for bin in bins {
        let length = u128::from(bin.blocks) * u128::from(BAR) / u128::from(most);
        row(out, &bound(bin.from), bin.blocks, bin.bytes, length as usize)?;
    }
    Ok(())
}

fn row(out: &mut String, name: &str, blocks: u64, bytes: u64, bar: usize) -> Result<()> {
    let bar = "#".repeat(bar);
    let line = format!("  {name:>12} {:>15} {:>9}  {bar}", grouped(blocks), Bytes(bytes));
    writeln!(out, "{}", line.trim_end())?;
    Ok(())
}

/// A power of ten, nanoseconds.
fn time(nanoseconds: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "µs")];
    let unit = units.into_iter().find(|(length, _)| nanoseconds >= *length);
    unit.map_or_else(|| nanoseconds.to_string(), |(length, name)| format!("{} {name}", nanoseconds / length))
}
