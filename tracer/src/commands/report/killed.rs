//! Processes that were killed for lack of memory, and what they retained.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::profile::places::places;
use memtrace_trace::Trace;

use crate::terminal::clean;
use crate::units::{Bytes, measured};

/// Columns for the command.
const COMMAND_MAX: usize = 40;

/// Each with its operators and call stacks, at most `most` of each.
pub fn lines(out: &mut String, trace: &Trace, most: usize) -> Result<()> {
    let killed = &trace.meta().out_of_memory;
    let places = places(trace, killed.iter().flat_map(|victim| &victim.sites).map(|share| share.site))?;
    for victim in killed.iter().take(most) {
        let limit = victim.limit_bytes.map(|limit| format!(" (limit {})", Bytes(limit))).unwrap_or_default();
        let command: String = clean(&victim.command).chars().take(COMMAND_MAX).collect();
        writeln!(out, "  KILLED for lack of memory{limit}: process {} ({command})", victim.pid)?;
        writeln!(
            out,
            "    retained {} live; {} resident when last sampled",
            Bytes(victim.live_bytes),
            measured(victim.resident_bytes)
        )?;
        for share in victim.operators.iter().take(most) {
            writeln!(out, "    {:>9} in operator {}", Bytes(share.bytes), clean(&share.name))?;
        }
        for share in victim.sites.iter().take(most) {
            let place = places.get(&share.site).map_or("an unknown place", String::as_str);
            writeln!(out, "    {:>9} allocated at {}", Bytes(share.bytes), clean(place))?;
        }
    }
    if killed.len() > most {
        writeln!(out, "    and {} more processes were killed for lack of memory", killed.len() - most)?;
    }
    Ok(())
}
