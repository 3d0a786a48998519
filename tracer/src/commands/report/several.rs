//! Several traces in one picture, and the ranks of one.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use memtrace_analysis::report::document::{Node, OperatorOfRanks, RankName, Ranks, Several, Spread};
use memtrace_analysis::report::several::several;

use super::operators::array;
use super::summary::fitted;
use crate::commands::json;
use crate::terminal::{Progress, clean, columns_of, print};
use crate::units::{Bytes, Seconds, grouped};

/// Operators that have a line.
const OPERATORS_MAX: usize = 20;
/// Machines that have a line: those with the largest share of their memory in use.
const NODES_MAX: usize = 10;
/// Columns for the names of operators.
const NAME_MAX: usize = 32;

/// Prints the picture of the traces.
pub fn show(traces: &[PathBuf], as_json: bool) -> Result<()> {
    let progress = Progress::start("reading traces");
    let found = several(traces)?;
    drop(progress);
    if as_json {
        return json::print(&found);
    }
    let columns = columns_of(&std::io::stdout());
    let text: String = text(&found)?.lines().map(|line| fitted(line, columns) + "\n").collect();
    // A command is of no use if it is cut.
    let largest = &found.ranks.peak_live.largest.trace;
    print(&format!("{text}\n  trace of the largest peak: memtrace report {}\n", clean(largest)))
}

fn text(found: &Several) -> Result<String> {
    let mut out = String::new();
    writeln!(out, "memtrace: {}, {}", counted(found), Seconds((found.seconds * 1e9) as i64))?;
    peak(&mut out, &found.ranks)?;
    nodes(&mut out, &found.nodes)?;
    operators(&mut out, &found.ranks.operators)?;
    notes(&mut out, found)?;
    Ok(out)
}

/// `64 traces of 64 ranks on 2 hosts`
fn counted(found: &Several) -> String {
    let number =
        |count: u64, what: &str| format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" });
    let (traces, hosts) = (number(found.traces, "trace"), number(found.nodes.len() as u64, "host"));
    match found.ranks.peak_live.largest.rank {
        Some(_) => format!("{traces} of {} on {hosts}", number(found.ranks.peak_live.ranks, "rank")),
        None => format!("{traces} on {hosts}"),
    }
}

fn peak(out: &mut String, ranks: &Ranks) -> Result<()> {
    for (what, spread) in [("peak", &ranks.peak_live), ("resident", &ranks.peak_resident)] {
        let live = if what == "peak" { " live" } else { "" };
        writeln!(
            out,
            "  {what:<8} {:>9}{live} in {}; {} together",
            Bytes(spread.max_bytes),
            name(&spread.largest),
            Bytes(spread.sum_bytes),
        )?;
        writeln!(out, "{:13}{}", "", spread_text(spread))?;
    }
    Ok(())
}

/// `smallest 280 MB, mean 301 MB: the largest has 1.37 times the mean`
fn spread_text(spread: &Spread) -> String {
    let (least, mean) = (Bytes(spread.min_bytes), Bytes(spread.mean_bytes));
    let times = spread.max_bytes as f64 / spread.mean_bytes.max(1) as f64;
    format!("smallest {least}, mean {mean}: the largest has {times:.2} times the mean")
}

/// The line of a single trace on its ranks.
pub fn line(out: &mut String, ranks: &Ranks) -> Result<()> {
    let Ranks { peak_live: spread, .. } = ranks;
    let [most, least, mean] = [spread.max_bytes, spread.min_bytes, spread.mean_bytes].map(Bytes);
    let (count, which) = (grouped(spread.ranks), name(&spread.largest));
    writeln!(out, "  {count:>4} ranks: most live {most} in {which}; smallest {least}, mean {mean}")?;
    Ok(())
}

/// `rank 2 of job 4711`, or the trace where there is no rank.
fn name(name: &RankName) -> String {
    match (name.rank, &name.job) {
        (Some(rank), Some(job)) => format!("rank {rank} of job {}", clean(job)),
        (Some(rank), None) => format!("rank {rank}"),
        (None, Some(job)) => format!("job {}", clean(job)),
        (None, None) => clean(&name.trace),
    }
}

fn nodes(out: &mut String, nodes: &[Node]) -> Result<()> {
    let share = |node: &Node| Some(100.0 * node.resident_at_most_bytes as f64 / node.memory_bytes? as f64);
    let mut nodes: Vec<&Node> = nodes.iter().collect();
    nodes.sort_by(|a, b| share(b).unwrap_or(0.0).total_cmp(&share(a).unwrap_or(0.0)));
    writeln!(out, "\n  {:>12} {:>9} {:>7}  host", "resident", "memory", "traces")?;
    for node in nodes.iter().take(NODES_MAX) {
        let memory = node.memory_bytes.map_or_else(|| "?".to_owned(), |bytes| Bytes(bytes).to_string());
        let share =
            share(node).map_or_else(String::new, |share| format!(": {share:.0} % of its memory at most"));
        writeln!(
            out,
            "  {:>12} {memory:>9} {:>7}  {}{share}",
            Bytes(node.resident_at_most_bytes).to_string(),
            grouped(node.traces),
            clean(&node.host),
        )?;
    }
    if nodes.len() > NODES_MAX {
        writeln!(out, "  {:>12} more hosts", nodes.len() - NODES_MAX)?;
    }
    Ok(())
}

fn operators(out: &mut String, operators: &[OperatorOfRanks]) -> Result<()> {
    let shown = &operators[..operators.len().min(OPERATORS_MAX)];
    let names = shown.iter().map(|operator| clean(&operator.name).chars().count());
    let Some(longest) = names.max() else { return Ok(()) };
    let width = longest.clamp("operator".len(), NAME_MAX);
    writeln!(
        out,
        "\n  {:>12} {:>6} {:>9} {:>9} {:>7} {:>6}  {:<width$}  largest input",
        "working peak", "rank", "mean", "smallest", "calls", "ranks", "operator"
    )?;
    for operator in shown {
        let peak = &operator.working_peak;
        let rank = peak.largest.rank.map_or_else(String::new, |rank| rank.to_string());
        let input = operator.inputs.iter().rev().max_by_key(|input| input.bytes).map(array);
        let line = format!(
            "  {:>12} {rank:>6} {:>9} {:>9} {:>7} {:>6}  {:<width$}  {}",
            Bytes(peak.max_bytes).to_string(),
            Bytes(peak.mean_bytes).to_string(),
            Bytes(peak.min_bytes).to_string(),
            grouped(operator.calls),
            grouped(peak.ranks),
            clean(&operator.name),
            input.unwrap_or_default(),
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    if operators.len() > shown.len() {
        writeln!(out, "  {:>12} more operators: report --json", operators.len() - shown.len())?;
    }
    Ok(())
}

fn notes(out: &mut String, found: &Several) -> Result<()> {
    let mut note = |count: u64, what: &str| match count {
        0 => Ok(()),
        count => writeln!(out, "  note: {} {what}", grouped(count)),
    };
    note(found.failed, "of the commands did not end with status 0")?;
    note(found.incomplete, "of the traces were not closed in order: memtrace recover")?;
    note(found.lost.events, "events were lost: the figures are too small")?;
    if let Some(why) = found.unreadable_why.first() {
        let which = if found.unreadable > 1 { "; the first" } else { "" };
        let count = grouped(found.unreadable);
        writeln!(out, "  note: {count} of the traces cannot be read{which}: {}", clean(why))?;
    }
    Ok(())
}
