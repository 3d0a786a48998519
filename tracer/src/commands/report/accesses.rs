//! Page faults and sampled memory accesses in the summary.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::accesses::{self, Accesses, JUDGED_FROM, Retained};
use memtrace_trace::rows::ProcessRow;
use memtrace_trace::{Meta, Trace};

use super::clock;
use crate::terminal::clean;
use crate::units::Bytes;
use crate::units::grouped;

const SITES_MAX: usize = 5;

/// How many page faults there were, and what counted them.
pub fn faults(out: &mut String, meta: &Meta, processes: &[ProcessRow]) -> Result<()> {
    let how = |name: &str| meta.recorded.get(name).map_or("", String::as_str);
    let counted: Vec<u64> = processes.iter().filter_map(|process| process.page_faults).collect();
    let sum = grouped(counted.iter().fold(0, |sum, faults| sum.saturating_add(*faults)));
    match (how("kernel"), how("page_faults")) {
        (_, by @ ("perf" | "perf_user")) => {
            // The last step of each thread and processor is not sampled.
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

/// What was sampled, and what was retained but unused; nothing without `--accesses`.
pub fn lines(out: &mut String, trace: &Trace) -> Result<()> {
    let Some(all) = accesses::of(trace)? else { return Ok(()) };
    let how = |name: &str| trace.meta().recorded.get(name).map_or("", String::as_str);
    writeln!(out)?;
    if !how("accesses_why").is_empty() {
        writeln!(out, "  no memory accesses were sampled: {}", clean(how("accesses_why")))?;
    }
    let Accesses { samples, in_blocks, faults, faults_in_blocks, retained } = &all;
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
    clock::lines(out, trace)?;
    match retained {
        Some(Ok(retained)) => unused(out, trace, retained),
        Some(Err(why)) => {
            writeln!(out, "  what of the peak was unused is not known from this trace: {why}")?;
            Ok(())
        }
        None => Ok(()),
    }
}

fn unused(out: &mut String, trace: &Trace, retained: &Retained) -> Result<()> {
    if retained.samples_after == 0 {
        writeln!(out, "  no access was sampled after the peak: what was unused from then on is not known")?;
        return Ok(());
    }
    writeln!(
        out,
        "  retained but unused  {:>9}   of {} in blocks from {} on at the peak were not accessed after it,",
        Bytes(retained.unused_bytes),
        Bytes(retained.bytes),
        Bytes(JUDGED_FROM)
    )?;
    writeln!(
        out,
        "                       {:>9}   of them never: an estimate, from {} samples after the peak",
        Bytes(retained.never_bytes),
        grouped(retained.samples_after)
    )?;
    let largest = &retained.sites[..retained.sites.len().min(SITES_MAX)];
    let places = accesses::places(trace, largest)?;
    for site in largest {
        let place = site.site.and_then(|site| places.get(&site)).map_or("(no call stack)", String::as_str);
        let blocks = grouped(site.blocks);
        writeln!(out, "  {:>9} in {blocks} blocks, allocated at {}", Bytes(site.unused_bytes), clean(place))?;
    }
    Ok(())
}
