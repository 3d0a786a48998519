//! The processes of a recording, in one line; those that matter have one each.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use memtrace_trace::rows::{ProcessRow, split_command};

use crate::terminal::clean;
use crate::units::Bytes;

/// Programs named.
const PROGRAMS_MAX: usize = 3;
/// Columns for a program's name.
const NAME_MAX: usize = 24;

/// Nothing for a single process.
pub fn lines(out: &mut String, processes: &[ProcessRow]) -> Result<()> {
    let mut largest: BTreeMap<u32, (u64, String)> = BTreeMap::new();
    for process in processes {
        let live = largest.entry(process.pid).or_default();
        if process.peak_live_bytes >= live.0 {
            *live = (process.peak_live_bytes, name_of(process));
        }
    }
    if largest.len() < 2 {
        return Ok(());
    }
    let mut programs: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for (bytes, name) in largest.values() {
        let program = programs.entry(name).or_default();
        *program = (program.0 + 1, program.1.max(*bytes));
    }
    let mut programs: Vec<(&str, (usize, u64))> = programs.into_iter().collect();
    programs.sort_by_key(|(name, (_, bytes))| (std::cmp::Reverse(*bytes), *name));
    let named = programs.iter().take(PROGRAMS_MAX).map(|(name, (count, bytes))| match count {
        1 => format!("{name} {}", Bytes(*bytes)),
        _ => format!("{count} × {name} up to {}", Bytes(*bytes)),
    });
    let more = if programs.len() > PROGRAMS_MAX { ", …" } else { "" };
    let named = named.collect::<Vec<_>>().join(", ");
    writeln!(out)?;
    writeln!(out, "  {} processes; most live: {named}{more}", largest.len())?;
    Ok(())
}

/// The program without its folder.
fn name_of(process: &ProcessRow) -> String {
    let (program, _) = split_command(&process.command);
    let name = clean(program.rsplit('/').next().unwrap_or(program));
    name.chars().take(NAME_MAX).collect()
}
