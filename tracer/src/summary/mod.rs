//! The summary people read: at the end of a recording, and from `report`.

mod accesses;
mod devices;
mod operators;
mod processes;
mod resident;
mod sites;
mod spans;

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::{collect_share, row_notes};
use memtrace_analysis::sites::places;
use memtrace_trace::rows::ProcessRow;
use memtrace_trace::weights;
use memtrace_trace::{Meta, Trace};

use crate::units::{Bytes, Seconds};

/// The summary of a trace.
pub fn text(trace: &Trace) -> Result<String> {
    let (meta, processes, spans) = (trace.meta(), trace.processes()?, trace.span_figures()?);
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
        "  peak mapped bytes    {:>9}   own mappings, touched or not, largest process",
        Bytes(peak.mapped_bytes)
    )?;
    writeln!(
        out,
        "  peak resident bytes  {:>9}   as the kernel counts, largest process, the probe's rings left out",
        measured(peak.resident_bytes)
    )?;
    resident::known_from(&mut out, meta, &processes)?;
    accesses::faults(&mut out, meta, &processes)?;
    devices::peaks(&mut out, meta)?;
    if processes.len() > 1 {
        writeln!(
            out,
            "  all processes at once: {} live (the peak above), {} resident at most when sampled",
            Bytes(peak.live_bytes),
            measured(peak.resident_sum_bytes)
        )?;
    }
    garbage(&mut out, trace, &processes)?;
    writeln!(
        out,
        "  {} allocations, {} requested; {} events lost; call stacks: {}",
        grouped(meta.totals.allocations),
        Bytes(meta.totals.requested_bytes),
        grouped(meta.lost.events),
        stacks(meta)
    )?;
    out_of_memory(&mut out, trace)?;
    sites::largest(&mut out, trace)?;
    operators::table(&mut out, trace, &spans)?;
    spans::lines(&mut out, trace, &spans)?;
    spans::unattributed(&mut out, &processes)?;
    devices::table(&mut out, &trace.devices()?, &spans)?;
    sites::largest_on_devices(&mut out, trace)?;
    resident::of_processes(&mut out, &processes)?;
    resident::of_operators(&mut out, &spans)?;
    sites::untouched(&mut out, trace)?;
    accesses::lines(&mut out, trace)?;
    processes::tree(&mut out, &processes)?;
    for note in meta.notes.iter().chain(&row_notes(meta)) {
        writeln!(out, "  note: {}", clean(note))?;
    }
    Ok(out)
}

/// Only where garbage was told apart. The share of time is that of the process that collected longest.
fn garbage(out: &mut String, trace: &Trace, processes: &[ProcessRow]) -> Result<()> {
    let peak = &trace.meta().peak;
    let (Some(lower), Some(upper)) = (peak.gc_independent_bytes, peak.gc_independent_upper_bytes) else {
        return Ok(());
    };
    let collections = processes.iter().map(|process| process.collections).sum();
    let busiest = processes.iter().max_by_key(|process| process.collect_ns);
    writeln!(
        out,
        "  GC-independent peak  {:>9}   to {}; observed {}, of it garbage {}; {} collections took {:.1} % of run time",
        Bytes(lower),
        Bytes(upper),
        Bytes(peak.live_bytes),
        Bytes(peak.garbage_at_peak_bytes.unwrap_or(0)),
        grouped(collections),
        100.0 * busiest.and_then(collect_share).unwrap_or(0.0)
    )?;
    Ok(())
}

/// Which blocks have their call stack.
fn stacks(meta: &Meta) -> String {
    let how = |name: &str| meta.recorded.get(name).map_or("", String::as_str);
    match (how("stacks"), how(weights::EXACT_FROM).parse()) {
        ("all", _) => "of every block".into(),
        ("auto", Ok(bytes)) => format!("of blocks from {} on, smaller ones sampled", Bytes(bytes)),
        (other, _) => clean(other),
    }
}

fn out_of_memory(out: &mut String, trace: &Trace) -> Result<()> {
    let killed = &trace.meta().out_of_memory;
    let places = places(trace, killed.iter().flat_map(|victim| &victim.sites).map(|share| share.site))?;
    for victim in killed {
        let limit = victim.limit_bytes.map(|limit| format!(" (limit {})", Bytes(limit))).unwrap_or_default();
        let command: String = clean(&victim.command).chars().take(60).collect();
        writeln!(out, "  KILLED for lack of memory{limit}: process {} ({command})", victim.pid)?;
        writeln!(
            out,
            "    held {} live; {} resident when last looked at",
            Bytes(victim.live_bytes),
            measured(victim.resident_bytes)
        )?;
        for share in &victim.operators {
            writeln!(out, "    {:>9} in operator {}", Bytes(share.bytes), clean(&share.name))?;
        }
        for share in &victim.sites {
            let place = places.get(&share.site).map_or("an unknown place", String::as_str);
            writeln!(out, "    {:>9} allocated at {}", Bytes(share.bytes), clean(place))?;
        }
    }
    Ok(())
}

/// A number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
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
