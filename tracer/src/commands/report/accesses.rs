//! Page faults and sampled memory accesses in the summary.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::accesses::{self, Accesses, JUDGED_FROM, Retained};
use memtrace_analysis::report::clock;
use memtrace_trace::rows::ProcessRow;
use memtrace_trace::{Meta, Trace};

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
    clock_lines(out, trace)?;
    match retained {
        Some(Ok(retained)) => unused(out, trace, retained),
        Some(Err(why)) => {
            writeln!(out, "  what of the peak was unused is not known from this trace: {why}")?;
            Ok(())
        }
        None => Ok(()),
    }
}

/// Where the time of the program went; nothing without `--accesses clock`.
fn clock_lines(out: &mut String, trace: &Trace) -> Result<()> {
    let Some(times) = clock::of(trace)? else { return Ok(()) };
    if times.samples == 0 {
        writeln!(
            out,
            "  no moment was sampled: the program's own code ran for less than a few milliseconds"
        )?;
        return Ok(());
    }
    let share = |samples: u64| format!("{:>9.1} %", 100.0 * samples as f64 / times.samples as f64);
    writeln!(out, "  {} moments of the program's own code sampled (cpu-clock):", grouped(times.samples))?;
    if trace.meta().rows.rotated_timeline > 0 {
        writeln!(out, "  they are of the end of the recording: older ones were deleted (--max-trace-size)")?;
    }
    let others = times.touching.saturating_sub(times.without_address.saturating_add(times.in_blocks));
    let large = format!("on memory of blocks from {} on", Bytes(JUDGED_FROM));
    let rows = [
        (times.in_large_blocks, large.as_str()),
        (times.in_blocks.saturating_sub(times.in_large_blocks), "on memory of smaller blocks"),
        (others, "on other memory: stacks, static data, what the probe does not see"),
        (times.without_address, "on a load that replaced its own address, as in a chain of pointers"),
        (times.known.saturating_sub(times.touching), "on an instruction that touches none"),
        (times.samples - times.known, "on an instruction that is not known"),
    ];
    for (samples, what) in rows {
        writeln!(out, "  {}  {what}", share(samples))?;
    }
    let largest = &times.sites[..times.sites.len().min(SITES_MAX)];
    let places = clock::places(trace, largest)?;
    for timed in largest {
        let place = timed.site.and_then(|site| places.get(&site)).map_or("(no call stack)", String::as_str);
        let bytes = Bytes(timed.block_bytes);
        writeln!(
            out,
            "  {}  on blocks of up to {bytes}, allocated at {}",
            share(timed.samples),
            clean(place)
        )?;
    }
    Ok(())
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
