//! The processes that ran.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::Result;
use memtrace_trace::rows::ProcessRow;

use crate::terminal::clean;
use crate::units::{Bytes, measured};

const PROCESSES_MAX: usize = 12;
/// Processes deeper in the tree than this are left out.
const DEPTH_MAX: usize = 24;

/// The tree of processes. One line per process: what a fork did before it executed another program
/// is part of it.
pub fn tree(out: &mut String, processes: &[ProcessRow]) -> Result<()> {
    let mut lines: BTreeMap<u32, Line> = BTreeMap::new();
    for process in processes {
        let line = lines.entry(process.pid).or_default();
        line.parent = process.ppid;
        line.live = line.live.max(process.peak_live_bytes);
        line.resident = line.resident.max(process.peak_resident_bytes);
        line.command = clean(&process.command).chars().take(60).collect();
        line.exit = process.exit;
        line.rank = process.rank;
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
    rank: Option<u32>,
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
    let rank = line.rank.map(|rank| format!(" [rank {rank}]")).unwrap_or_default();
    writeln!(
        out,
        "  {pid:>8} {:>10} {:>10}  {:indent$}{}{rank}{exit}",
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
