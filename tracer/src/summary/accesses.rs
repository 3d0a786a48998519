//! What the summary says of page faults and of sampled memory accesses.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::accesses::{self, Accesses, Held, JUDGED_FROM};
use memtrace_trace::rows::ProcessRow;
use memtrace_trace::{Meta, Trace};

use super::{clean, grouped};
use crate::units::Bytes;

const SITES_MAX: usize = 5;

/// How many page faults there were, and who counted them.
pub fn faults(out: &mut String, meta: &Meta, processes: &[ProcessRow]) -> Result<()> {
    let how = |name: &str| meta.recorded.get(name).map_or("", String::as_str);
    let counted: Vec<u64> = processes.iter().filter_map(|process| process.page_faults).collect();
    let sum = grouped(counted.iter().fold(0, |sum, faults| sum.saturating_add(*faults)));
    match (how("kernel"), how("page_faults")) {
        (_, by @ ("perf" | "perf_user")) => {
            // Of the last step of each thread and processor nothing is told.
            let (at_least, period) = match how("page_faults_period") {
                "1" => ("", String::new()),
                period => ("at least ", format!(", in steps of {period}")),
            };
            let left_out = if by == "perf_user" { "; the kernel's own are left out" } else { "" };
            writeln!(out, "    {at_least}{sum} page faults, by perf events{period}{left_out}")?;
        }
        (_, "off") => writeln!(out, "    page faults are not counted: {}", clean(how("page_faults_why")))?,
        ("ebpf", _) if !counted.is_empty() => {
            writeln!(out, "    {sum} page faults, by the kernel side (BPF)")?;
        }
        _ => {}
    }
    Ok(())
}

/// What was sampled, and what was held but not used; nothing if nobody asked.
pub fn lines(out: &mut String, trace: &Trace) -> Result<()> {
    let Some(all) = accesses::of(trace)? else { return Ok(()) };
    let how = |name: &str| trace.meta().recorded.get(name).map_or("", String::as_str);
    writeln!(out)?;
    if !how("accesses_why").is_empty() {
        writeln!(out, "  no memory accesses were sampled: {}", clean(how("accesses_why")))?;
    }
    let Accesses { samples, in_blocks, faults, faults_in_blocks, held } = &all;
    if *faults > 0 {
        writeln!(
            out,
            "  {} first touches (page faults), {} of them in live blocks; what was accessed after that is not known",
            grouped(*faults),
            grouped(*faults_in_blocks)
        )?;
    }
    if !how("accesses_events").is_empty() && how("accesses") == "hardware" {
        writeln!(
            out,
            "  {} memory accesses sampled ({}), {} of them in live blocks",
            grouped(*samples),
            clean(how("accesses_events")),
            grouped(*in_blocks)
        )?;
    }
    match held {
        Some(Ok(held)) => unused(out, trace, held),
        Some(Err(why)) => {
            writeln!(out, "  what of the peak was unused cannot be told from this trace: {why}")?;
            Ok(())
        }
        None => Ok(()),
    }
}

fn unused(out: &mut String, trace: &Trace, held: &Held) -> Result<()> {
    if held.samples_after == 0 {
        writeln!(out, "  no access was sampled after the peak: what was unused from then on is not known")?;
        return Ok(());
    }
    writeln!(
        out,
        "  held but unused      {:>9}   of {} in blocks from {} on at the peak were not accessed after it,",
        Bytes(held.unused_bytes),
        Bytes(held.bytes),
        Bytes(JUDGED_FROM)
    )?;
    writeln!(
        out,
        "                       {:>9}   of them never: an estimate, from {} samples after the peak",
        Bytes(held.never_bytes),
        grouped(held.samples_after)
    )?;
    let largest = &held.sites[..held.sites.len().min(SITES_MAX)];
    let places = accesses::places(trace, largest)?;
    for site in largest {
        let place = site.site.and_then(|site| places.get(&site)).map_or("(no call stack)", String::as_str);
        let blocks = grouped(site.blocks);
        writeln!(out, "  {:>9} in {blocks} blocks, allocated at {}", Bytes(site.unused_bytes), clean(place))?;
    }
    Ok(())
}
