//! The summary people read: at the end of a recording, and from `report`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::{by_operator, collect_share, row_notes};
use memtrace_analysis::resident::AtPeak;
use memtrace_analysis::sites;
use memtrace_trace::rows::{ArrayInfo, ProcessRow, SpanRow};
use memtrace_trace::weights;
use memtrace_trace::{Meta, Trace};

use crate::accesses;
use crate::units::{Bytes, Seconds};

const PROCESSES_MAX: usize = 12;
/// Processes deeper in the tree than this are left out.
const DEPTH_MAX: usize = 24;
const OPERATORS_MAX: usize = 20;
const SITES_MAX: usize = 10;
/// Columns for the place of a site; with what stands before it, 100.
const PLACE_MAX: usize = 65;

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
    resident(&mut out, meta, &processes)?;
    accesses::faults(&mut out, meta, &processes)?;
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
    largest_sites(&mut out, trace)?;
    accesses::lines(&mut out, trace)?;
    operators(&mut out, trace, &spans)?;
    process_tree(&mut out, &processes)?;
    for note in meta.notes.iter().chain(&row_notes(meta)) {
        writeln!(out, "  note: {}", clean(note))?;
    }
    Ok(out)
}

/// What the largest resident peak was made of, and where that is known from.
fn resident(out: &mut String, meta: &Meta, processes: &[ProcessRow]) -> Result<()> {
    let largest = processes.iter().max_by_key(|process| process.peak_resident_bytes);
    if let Some(parts) = largest.and_then(AtPeak::of) {
        let live = match parts.live {
            Some(live) => {
                format!(" (live {}, other {})", Bytes(live), Signed(parts.unexplained.unwrap_or(0)))
            }
            None => String::new(),
        };
        writeln!(
            out,
            "    of it              {:>9}   anonymous and shared{live}, {} of files and code",
            Bytes(parts.memory),
            Bytes(parts.file),
        )?;
    }
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
        write!(f, "{sign}{}", Bytes(self.0.unsigned_abs()))
    }
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

/// What the peak was made of: the largest sites, and in one line each what the others and no stack account for.
fn largest_sites(out: &mut String, trace: &Trace) -> Result<()> {
    let all: u64 = trace.sites()?.iter().map(|row| row.live_bytes_at_peak).fold(0, u64::saturating_add);
    let peak = trace.meta().peak.live_bytes;
    if all == 0 {
        return Ok(());
    }
    let sites = sites::largest(trace, SITES_MAX)?;
    let share = |bytes: u64| format!("{:.1} %", 100.0 * bytes as f64 / peak.max(all) as f64);
    writeln!(out)?;
    writeln!(out, "  {:>9} {:>8} {:>11}  allocated at", "at peak", "share", "blocks")?;
    let mut rest = all;
    for site in sites.iter().filter(|site| site.row.live_bytes_at_peak > 0) {
        let bytes = site.row.live_bytes_at_peak;
        rest = rest.saturating_sub(bytes);
        let (blocks, place) = (grouped(site.row.blocks), shortened(&clean(&site.place()), PLACE_MAX));
        writeln!(out, "  {:>9} {:>8} {blocks:>11}  {place}", Bytes(bytes), share(bytes))?;
    }
    let without = (peak.saturating_sub(all), sites::without_stack(trace.meta()));
    for (bytes, what) in [(rest, "(other sites)"), without].into_iter().filter(|(bytes, _)| *bytes > 0) {
        writeln!(out, "  {:>9} {:>8} {:>11}  {what}", Bytes(bytes), share(bytes), "")?;
    }
    Ok(())
}

/// Its beginning and its end, if it is too long.
fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.into();
    }
    let start: String = text.chars().take(most * 2 / 3).collect();
    let end: String = text.chars().skip(length - (most - most * 2 / 3 - 1)).collect();
    format!("{start}…{end}")
}

fn operators(out: &mut String, trace: &Trace, spans: &[SpanRow]) -> Result<()> {
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
    let shown: Vec<_> =
        groups.iter().take(OPERATORS_MAX).filter_map(|(_, spans)| largest_call(spans)).collect();
    let inputs = trace.spans_of(&shown.iter().map(|span| span.span).collect())?;
    let inputs: HashMap<u32, &Vec<ArrayInfo>> = inputs.iter().map(|row| (row.span, &row.inputs)).collect();
    for ((name, spans), largest) in groups.iter().zip(shown) {
        let once: u64 = spans.iter().map(|span| span.once_bytes).max().unwrap_or(0);
        let time = largest.end_ns.map_or("cut".into(), |end| Seconds(end - largest.start_ns).to_string());
        writeln!(
            out,
            "  {:<28} {:>5}  {:<22} {:>9} {:>12} {:>9} {:>9} {:>9}",
            clean(name),
            spans.len(),
            inputs.get(&largest.span).and_then(|inputs| inputs.first()).map(array).unwrap_or_default(),
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

/// Of the steady state where there is any: the first call also pays for what is made once.
fn largest_call<'a>(spans: &[&'a SpanRow]) -> Option<&'a SpanRow> {
    let steady = spans.iter().filter(|span| span.call > 0).max_by_key(|span| span.working_peak_bytes);
    steady.or(spans.iter().max_by_key(|span| span.working_peak_bytes)).copied()
}

/// The tree of processes. One line per process: what a fork did before it executed another program is part of it.
fn process_tree(out: &mut String, processes: &[ProcessRow]) -> Result<()> {
    let mut lines: BTreeMap<u32, Line> = BTreeMap::new();
    for process in processes {
        let line = lines.entry(process.pid).or_default();
        line.parent = process.ppid;
        line.live = line.live.max(process.peak_live_bytes);
        line.resident = line.resident.max(process.peak_resident_bytes);
        line.command = clean(&process.command).chars().take(60).collect();
        line.exit = process.exit;
    }
    if lines.len() < 2 {
        return Ok(());
    }
    // The largest are shown, with those they descend from.
    let mut largest: Vec<u32> = lines.keys().copied().collect();
    largest.sort_by_key(|pid| std::cmp::Reverse(lines[pid].live.max(lines[pid].resident)));
    let mut shown: BTreeSet<u32> = BTreeSet::new();
    for pid in largest.iter().take(PROCESSES_MAX) {
        let mut next = Some(*pid);
        while let Some(pid) = next.filter(|pid| shown.insert(*pid)) {
            next = Some(lines[&pid].parent).filter(|parent| lines.contains_key(parent));
        }
    }
    writeln!(out)?;
    writeln!(out, "  {:>8} {:>10} {:>10}  process", "pid", "live", "resident")?;
    let roots = shown.iter().filter(|pid| !shown.contains(&lines[pid].parent));
    for root in roots {
        branch(out, &lines, &shown, *root, 0)?;
    }
    if lines.len() > shown.len() {
        writeln!(out, "  and {} more processes", lines.len() - shown.len())?;
    }
    Ok(())
}

/// A process in the tree.
#[derive(Default)]
struct Line {
    parent: u32,
    live: u64,
    resident: u64,
    command: String,
    exit: Option<i32>,
}

fn branch(
    out: &mut String,
    lines: &BTreeMap<u32, Line>,
    shown: &BTreeSet<u32>,
    pid: u32,
    depth: usize,
) -> Result<()> {
    let line = &lines[&pid];
    let exit = line.exit.filter(|code| *code != 0).map(|code| format!(" [exit {code}]")).unwrap_or_default();
    writeln!(
        out,
        "  {pid:>8} {:>10} {:>10}  {:indent$}{}{exit}",
        Bytes(line.live),
        measured(line.resident),
        "",
        line.command,
        indent = depth.min(DEPTH_MAX) * 2,
    )?;
    for child in shown.iter().filter(|child| lines[child].parent == pid && **child != pid) {
        if depth < DEPTH_MAX {
            branch(out, lines, shown, *child, depth + 1)?;
        }
    }
    Ok(())
}

fn out_of_memory(out: &mut String, trace: &Trace) -> Result<()> {
    let killed = &trace.meta().out_of_memory;
    let places = sites::places(trace, killed.iter().flat_map(|victim| &victim.sites))?;
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

fn array(array: &ArrayInfo) -> String {
    let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
    format!("{} {}", shape.join("×"), clean(&array.dtype))
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
    fn what_is_too_long_keeps_its_ends() {
        assert_eq!(shortened("abcdefghij", 10), "abcdefghij");
        assert_eq!(shortened("abcdefghijk", 10), "abcdef…ijk");
        assert_eq!(shortened("äöü".repeat(9).as_str(), 6).chars().count(), 6);
    }

    #[test]
    fn a_trace_cannot_drive_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\r\n"), "a [31mb  ");
    }
}
