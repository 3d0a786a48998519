//! The summary people read: at the end of a recording, and from `report`.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::by_operator;
use memtrace_trace::Trace;
use memtrace_trace::rows::{ArrayInfo, ProcessRow, SpanRow};

use crate::units::{Bytes, Seconds};

const PROCESSES_MAX: usize = 12;
const OPERATORS_MAX: usize = 20;
const SITES_MAX: usize = 5;

/// The summary of a trace.
pub fn text(trace: &Trace) -> Result<String> {
    let (meta, processes, spans) = (trace.meta(), trace.processes()?, trace.spans()?);
    let mut out = String::new();
    let ending = match (meta.signal, meta.exit) {
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, Some(code)) => format!("exited {code}"),
        (None, None) => "was not seen to end".into(),
    };
    let command: String = clean(&meta.command.join(" ")).chars().take(100).collect();
    writeln!(out, "memtrace: {command}: {ending} after {}", Seconds(meta.duration_ns))?;
    if !meta.complete {
        writeln!(out, "  the recording was cut short: this is what had been written by then")?;
    }
    let peak = &meta.peak;
    let mappings = peak.live_bytes.saturating_sub(peak.heap_bytes);
    writeln!(
        out,
        "  peak live bytes      {:>9}   heap {}, own mappings {} (touched)",
        Bytes(peak.live_bytes),
        Bytes(peak.heap_bytes),
        Bytes(mappings)
    )?;
    writeln!(
        out,
        "  peak resident bytes  {:>9}   as the kernel counts, largest process, the probe's rings left out",
        measured(peak.resident_bytes)
    )?;
    writeln!(
        out,
        "  {} allocations, {} requested; {} events lost",
        grouped(meta.totals.allocations),
        Bytes(meta.totals.requested_bytes),
        grouped(meta.lost.events)
    )?;
    sites(&mut out, trace)?;
    operators(&mut out, &spans)?;
    process_table(&mut out, &processes)?;
    for note in &meta.notes {
        writeln!(out, "  note: {}", clean(note))?;
    }
    Ok(out)
}

fn sites(out: &mut String, trace: &Trace) -> Result<()> {
    let sites = memtrace_analysis::sites::largest(trace, SITES_MAX)?;
    for site in sites.iter().filter(|site| site.row.live_bytes_at_peak > 0) {
        let bytes = Bytes(site.row.live_bytes_at_peak);
        writeln!(out, "  largest at the peak  {bytes:>9}   at {}", clean(&site.place()))?;
    }
    Ok(())
}

fn operators(out: &mut String, spans: &[SpanRow]) -> Result<()> {
    if spans.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(
        out,
        "  {:<28} {:>5}  {:<22} {:>9} {:>12} {:>9} {:>9} {:>9}",
        "operator", "calls", "largest call's input", "input", "working peak", "output", "once", "time"
    )?;
    let groups = by_operator(spans);
    for (name, spans) in groups.iter().take(OPERATORS_MAX) {
        // Steady state where there is any: the first call also pays for what is made once.
        let steady = spans.iter().filter(|span| span.call > 0).max_by_key(|span| span.working_peak_bytes);
        let Some(largest) = steady.or(spans.iter().max_by_key(|span| span.working_peak_bytes)) else {
            continue;
        };
        let once: u64 = spans.iter().map(|span| span.once_bytes).max().unwrap_or(0);
        let time = largest.end_ns.map_or("cut".into(), |end| Seconds(end - largest.start_ns).to_string());
        writeln!(
            out,
            "  {:<28} {:>5}  {:<22} {:>9} {:>12} {:>9} {:>9} {:>9}",
            clean(name),
            spans.len(),
            largest.inputs.first().map(array).unwrap_or_default(),
            Bytes(largest.input_bytes),
            Bytes(largest.working_peak_bytes),
            Bytes(largest.output_bytes),
            Bytes(once),
            time,
        )?;
    }
    if groups.len() > OPERATORS_MAX {
        writeln!(out, "  and {} more operators (report --json has all)", groups.len() - OPERATORS_MAX)?;
    }
    Ok(())
}

fn process_table(out: &mut String, processes: &[ProcessRow]) -> Result<()> {
    if processes.len() < 2 {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "  {:>8} {:>8} {:>10} {:>10}  command", "pid", "parent", "live", "resident")?;
    let mut largest: Vec<&ProcessRow> = processes.iter().collect();
    largest.sort_by_key(|process| std::cmp::Reverse(process.peak_live_bytes));
    for process in largest.iter().take(PROCESSES_MAX) {
        let command: String = clean(&process.command).chars().take(60).collect();
        let fork = if process.origin == "fork" { " (fork)" } else { "" };
        writeln!(
            out,
            "  {:>8} {:>8} {:>10} {:>10}  {command}{fork}",
            process.pid,
            process.ppid,
            Bytes(process.peak_live_bytes),
            measured(process.peak_resident_bytes),
        )?;
    }
    if processes.len() > PROCESSES_MAX {
        writeln!(out, "  and {} more processes", processes.len() - PROCESSES_MAX)?;
    }
    Ok(())
}

fn array(array: &ArrayInfo) -> String {
    let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
    format!("{} {}", shape.join("×"), clean(&array.dtype))
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size that is 0 where nobody measured it: a process that ended before it was sampled.
fn measured(bytes: u64) -> String {
    if bytes == 0 { "unknown".into() } else { Bytes(bytes).to_string() }
}

/// Text from a trace or a model, in one line and without what a terminal would obey.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1234567), "1,234,567");
    }

    #[test]
    fn a_trace_cannot_drive_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\r\n"), "a [31mb  ");
    }
}
