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
const NAME_MAX: usize = 26;

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
    let lines = known.iter().take(PROCESSES_MAX).map(|(process, parts)| {
        let image = parts.image.map(|image| image.stack.saturating_add(image.data));
        let mapped = parts.held.map(|held| held.mapped);
        let tables = size(process.page_table_bytes);
        let more = format!("{:>9} {tables:>11}", size(mapped));
        (name_of(process), sum(parts, Some(image)), more)
    });
    let parts = ["resident", "files", "touched", "stack+data", "other"];
    table(out, "process", &parts, &format!("{:>9} {:>11}", "mapped", "page tables"), lines.collect())
}

/// A line for each operator, of its largest call.
pub fn of_operators(out: &mut String, spans: &[SpanRow]) -> Result<()> {
    let groups = by_operator(spans);
    let largest = groups.iter().take(OPERATORS_MAX);
    let lines = largest.filter_map(|(name, spans)| {
        let span = largest_call(spans)?;
        let parts = AtPeak::of_span(span)?;
        let more = format!("{:>9} {:>12}", size(growth(span)), Bytes(span.working_peak_bytes));
        Some((clean(name), sum(&parts, None), more))
    });
    let parts = ["resident", "files", "touched", "other"];
    table(out, "operator", &parts, &format!("{:>9} {:>12}", "grew by", "working peak"), lines.collect())
}

/// The program without its folder, and as much of its arguments as fits.
fn name_of(process: &ProcessRow) -> String {
    let (program, arguments) = process.command.split_once(' ').unwrap_or((&process.command, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    clean(&format!("{} {program} {arguments}", process.pid))
}

/// Resident memory and what it is the sum of, then what was live; `image`: what is neither live nor an allocator's, where it
/// has a column.
fn sum(parts: &AtPeak, image: Option<Option<u64>>) -> Vec<String> {
    let other = parts.unexplained().unwrap_or(parts.memory as i64);
    let cells = [Some(size(Some(parts.resident))), Some(size(Some(parts.file))), Some(size(parts.touched()))];
    let cells = cells.into_iter().chain([image.map(size), Some(Signed(other).to_string())]).flatten();
    cells.chain([size(parts.held.map(|held| held.live))]).collect()
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or("unknown".into(), |bytes| Bytes(bytes).to_string())
}

/// Lines with a name, the cells of a sum, and what comes after it.
fn table(
    out: &mut String,
    whose: &str,
    parts: &[&str],
    more: &str,
    lines: Vec<(String, Vec<String>, String)>,
) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let heading = parts.iter().chain(&["of live"]).map(|part| part.to_string()).collect();
    let heading = (format!("at resident peak: {whose}"), heading, more.to_string());
    for (name, cells, more) in std::iter::once(heading).chain(lines) {
        let name: String = name.chars().take(NAME_MAX).collect();
        write!(out, "  {name:<NAME_MAX$}")?;
        let last = cells.len() - 1;
        for (at, cell) in cells.iter().enumerate() {
            let sign = match at {
                0 => "",
                1 => "= ",
                _ if at < last => "+ ",
                _ => "",
            };
            let width = parts.get(at).map_or(0, |part| part.len()).max(9);
            write!(out, " {sign}{cell:>width$}")?;
        }
        writeln!(out, " {more}")?;
    }
    Ok(())
}
