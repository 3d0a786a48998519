//! Why resident memory is another number than live bytes: of what it was made where it was highest.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::operators::Operator;
use memtrace_analysis::report::resident::{AtPeak, growth};
use memtrace_trace::Meta;
use memtrace_trace::rows::{ProcessRow, split_command};

use super::operators::OPERATORS_MAX;
use crate::terminal::clean;
use crate::units::Bytes;

const PROCESSES_MAX: usize = 5;
/// Columns for names; with what comes after them, 100.
const PROCESS_NAME: usize = 17;
const OPERATOR_NAME: usize = 28;

/// Where resident sizes are known from.
pub fn known_from(out: &mut String, meta: &Meta, processes: &[ProcessRow]) -> Result<()> {
    let how = |name: &str| meta.recorded.get(name).map_or("", String::as_str);
    let largest = processes.iter().max_by_key(|process| process.peak_resident_bytes);
    let reported = largest.is_some_and(|process| process.resident_peak_ns.is_some());
    match (how("kernel"), how("kernel_why")) {
        ("ebpf", _) if reported => writeln!(out, "    exact to the page, by the kernel side (BPF)")?,
        ("ebpf", _) => writeln!(out, "    by /proc: the kernel side (BPF) saw nothing of this process")?,
        ("proc", "") => writeln!(out, "    by /proc: sampled sizes and VmHWM")?,
        ("proc", why) => writeln!(out, "    by /proc (sampled sizes and VmHWM): {}", clean(why))?,
        _ => {}
    }
    Ok(())
}

/// A line for each of the largest processes of which it is known.
pub fn of_processes(out: &mut String, processes: &[ProcessRow]) -> Result<()> {
    let known = |process| Some((process, AtPeak::of(process)?));
    let mut known: Vec<(&ProcessRow, AtPeak)> = processes.iter().filter_map(known).collect();
    known.sort_by_key(|(process, parts)| (std::cmp::Reverse(parts.resident), process.process));
    let lines = known.iter().take(PROCESSES_MAX).map(|(process, parts)| {
        let image = parts.image.map(|image| image.stack.saturating_add(image.data));
        let mut line = Line::of(name_of(process), parts);
        line.summands.insert(2, size(image));
        line.more
            .extend([size(parts.retained.map(|retained| retained.mapped)), size(process.page_table_bytes)]);
        line
    });
    let summands = ["files", "touched", "data", "other"];
    table(out, &summands, &["of live", "mapped", "tables"], PROCESS_NAME, lines.collect())
}

/// A line for each operator, of its largest call.
pub fn of_operators(out: &mut String, operators: &[Operator]) -> Result<()> {
    let lines = operators.iter().take(OPERATORS_MAX).filter_map(|operator| {
        let span = &operator.largest;
        let mut line = Line::of(clean(&operator.name), &AtPeak::of_span(span)?);
        line.more.extend([size(growth(span)), size(Some(span.working_peak_bytes))]);
        Some(line)
    });
    let more = ["of live", "grew by", "working"];
    table(out, &["files", "touched", "other"], &more, OPERATOR_NAME, lines.collect())
}

/// The program without its folder, and its arguments.
fn name_of(process: &ProcessRow) -> String {
    let (program, arguments) = split_command(&process.command);
    let program = program.rsplit('/').next().unwrap_or(program);
    clean(&format!("{} {program} {arguments}", process.pid))
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or("unknown".into(), |bytes| Bytes(bytes).to_string())
}

/// A name, resident memory, what that is the sum of, and more.
struct Line {
    name: String,
    resident: String,
    summands: Vec<String>,
    more: Vec<String>,
}

impl Line {
    /// What is live counts as touched as far as there was resident memory for it.
    fn of(name: String, parts: &AtPeak) -> Line {
        let image = parts.image.map_or(0, |image| image.stack.saturating_add(image.data));
        let memory = parts.memory.saturating_sub(image);
        let touched = parts.touched().map(|touched| touched.min(memory));
        Line {
            name,
            resident: size(Some(parts.resident)),
            summands: vec![size(Some(parts.file)), size(touched), size(Some(memory - touched.unwrap_or(0)))],
            more: vec![size(parts.retained.map(|retained| retained.live))],
        }
    }

    fn write(&self, out: &mut String, name: usize) -> Result<()> {
        let cells = |cells: &[String]| cells.iter().map(|cell| format!("{cell:>8}")).collect::<Vec<_>>();
        let (summands, more) = (cells(&self.summands).join(" + "), cells(&self.more).join(" "));
        let short: String = self.name.chars().take(name).collect();
        writeln!(out, "  {short:<name$} {:>8} = {summands} {more}", self.resident)?;
        Ok(())
    }
}

fn table(out: &mut String, summands: &[&str], more: &[&str], name: usize, lines: Vec<Line>) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    let heading = Line {
        name: "at resident peak".into(),
        resident: "resident".into(),
        summands: words(summands),
        more: words(more),
    };
    writeln!(out)?;
    std::iter::once(&heading).chain(&lines).try_for_each(|line| line.write(out, name))
}
