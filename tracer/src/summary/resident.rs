//! Why resident memory is another number than live bytes: of what it was made where it was highest.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::by_operator;
use memtrace_analysis::resident::{AtPeak, growth};
use memtrace_trace::Meta;
use memtrace_trace::rows::{ProcessRow, SpanRow};

use super::clean;
use super::operators::{OPERATORS_MAX, largest_call};
use crate::units::Bytes;

const PROCESSES_MAX: usize = 5;

/// Where resident sizes are known from.
pub fn known_from(out: &mut String, meta: &Meta) -> Result<()> {
    let how = |name: &str| meta.recorded.get(name).map_or("", String::as_str);
    match (how("kernel"), how("kernel_why")) {
        ("ebpf", _) => writeln!(out, "    exact to the page, by the kernel side (BPF)")?,
        ("proc", "") => writeln!(out, "    by /proc: sampled sizes and VmHWM")?,
        ("proc", why) => writeln!(out, "    by /proc (sampled sizes and VmHWM): {}", clean(why))?,
        _ => {}
    }
    Ok(())
}

/// A difference of sizes.
struct Signed(i64);

impl std::fmt::Display for Signed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        f.pad(&format!("{sign}{}", Bytes(self.0.unsigned_abs())))
    }
}

/// A line for each of the largest processes of which it is known.
pub fn of_processes(out: &mut String, processes: &[ProcessRow]) -> Result<()> {
    let known = |process| Some((process, AtPeak::of(process)?));
    let mut known: Vec<(&ProcessRow, AtPeak)> = processes.iter().filter_map(known).collect();
    known.sort_by_key(|(process, parts)| (std::cmp::Reverse(parts.resident), process.process));
    if known.is_empty() {
        return Ok(());
    }
    heading(out, "process", &format!("{:>9} {:>11}", "mapped", "page tables"))?;
    for (process, parts) in known.iter().take(PROCESSES_MAX) {
        let command: String = clean(&process.command).chars().take(20).collect();
        let mapped = parts.held.map(|held| Bytes(held.mapped).to_string()).unwrap_or_default();
        let tables = process.page_table_bytes.map(|bytes| Bytes(bytes).to_string()).unwrap_or_default();
        line(out, &format!("{} {command}", process.pid), parts, &format!("{mapped:>9} {tables:>11}"))?;
    }
    Ok(())
}

/// A line for each operator, of its largest call.
pub fn of_operators(out: &mut String, spans: &[SpanRow]) -> Result<()> {
    let groups = by_operator(spans);
    let largest =
        groups.iter().take(OPERATORS_MAX).filter_map(|(name, spans)| Some((name, largest_call(spans)?)));
    let known: Vec<_> =
        largest.filter_map(|(name, span)| Some((name, span, AtPeak::of_span(span)?))).collect();
    if known.is_empty() {
        return Ok(());
    }
    heading(out, "operator", &format!("{:>9} {:>12}", "grew by", "working peak"))?;
    for (name, span, parts) in known {
        let grew = growth(span).map(|bytes| Bytes(bytes).to_string()).unwrap_or_default();
        let more = format!("{grew:>9} {:>12}", Bytes(span.working_peak_bytes));
        line(out, &clean(name), &parts, &more)?;
    }
    Ok(())
}

fn heading(out: &mut String, whose: &str, more: &str) -> Result<()> {
    writeln!(out)?;
    writeln!(
        out,
        "  {:<28} {:>9} = {:>9} + {:>9} + {:>9} {:>9} {more}",
        format!("at resident peak: {whose}"),
        "resident",
        "files",
        "touched",
        "other",
        "of live"
    )?;
    Ok(())
}

fn line(out: &mut String, whose: &str, parts: &AtPeak, more: &str) -> Result<()> {
    let touched = parts.touched().map_or("unknown".into(), |bytes| Bytes(bytes).to_string());
    let other = parts.unexplained().unwrap_or(parts.memory as i64);
    let live = parts.held.map(|held| Bytes(held.live).to_string()).unwrap_or_default();
    writeln!(
        out,
        "  {whose:<28} {:>9} = {:>9} + {touched:>9} + {:>9} {live:>9} {more}",
        Bytes(parts.resident),
        Bytes(parts.file),
        Signed(other),
    )?;
    Ok(())
}
