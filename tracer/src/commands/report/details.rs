//! `report --details`: everything that a trace says, in tables.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::json::{collect_share, row_notes};
use memtrace_analysis::report::operators::operators as operators_of;
use memtrace_trace::rows::ProcessRow;
use memtrace_trace::weights;
use memtrace_trace::{Meta, Trace};

use super::{accesses, devices, ending, killed, operators, processes, refused, resident, sites, spans};
use crate::terminal::clean;
use crate::units::{Bytes, grouped, measured};

/// All tables of a trace.
pub fn text(trace: &Trace) -> Result<String> {
    let (meta, processes, needed) =
        (trace.meta(), trace.processes()?, operators_of(trace, operators::OPERATORS_MAX)?);
    let mut out = String::new();
    ending::lines(&mut out, trace)?;
    let peak = &meta.peak;
    let mappings = peak.live_bytes.saturating_sub(peak.heap_bytes_at_peak);
    writeln!(
        out,
        "  peak live bytes      {:>9}   heap {}, own mappings {} (touched)",
        Bytes(peak.live_bytes),
        Bytes(peak.heap_bytes_at_peak),
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
        "  {} allocations, {} requested; {}; call stacks: {}",
        grouped(meta.totals.allocations),
        Bytes(meta.totals.requested_bytes),
        lost(meta),
        stacks(meta)
    )?;
    killed::lines(&mut out, trace, usize::MAX)?;
    refused::lines(&mut out, trace, usize::MAX)?;
    sites::largest(&mut out, trace)?;
    operators::table(&mut out, &needed)?;
    spans::lines(&mut out, trace, &needed)?;
    spans::unattributed(&mut out, &processes)?;
    devices::table(&mut out, &trace.devices()?, &needed)?;
    sites::largest_on_devices(&mut out, trace)?;
    resident::of_processes(&mut out, &processes)?;
    resident::of_operators(&mut out, &needed)?;
    sites::untouched(&mut out, trace)?;
    accesses::lines(&mut out, trace)?;
    processes::tree(&mut out, &processes)?;
    for note in meta.notes.iter().chain(&meta.remarks).chain(&row_notes(meta)) {
        writeln!(out, "  note: {}", clean(note))?;
    }
    Ok(out)
}

/// Only with `--gc`. The share of time is that of the process that collected longest.
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

/// A recorder that died has not counted to the end.
fn lost(meta: &Meta) -> String {
    match (meta.is_whole(), meta.lost.events) {
        (true, events) => format!("{} events lost", grouped(events)),
        (false, 0) => "how many events were lost is not known".into(),
        (false, events) => format!("{} events lost, or more", grouped(events)),
    }
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
