//! What was recorded, and how it ended.

use std::fmt::Write;

use anyhow::Result;
use memtrace_trace::{Meta, Trace};

use crate::live_protocol::is_recorded;
use crate::terminal::clean;
use crate::units::Seconds;

/// Columns for the command.
const COMMAND_MAX: usize = 44;

/// `memtrace: python run.py: exited 0 after 2.50 s`; if the recorder has not closed the trace, a
/// second line says so.
pub fn lines(out: &mut String, trace: &Trace) -> Result<()> {
    let meta = trace.meta();
    let runs = !meta.complete && is_recorded(trace.directory());
    let ending = match (meta.signal, meta.exit) {
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, Some(code)) => format!("exited {code}"),
        (None, None) if runs => "still runs".into(),
        (None, None) => "was not seen to end".into(),
    };
    writeln!(out, "memtrace: {}: {ending} after {}", command(meta), Seconds(meta.duration_ns))?;
    let so_far = match (meta.complete, runs) {
        (true, _) => return Ok(()),
        (false, true) => "this is what has been written so far; memtrace top shows it as it grows",
        (false, false) => "the recording was cut short: this is what had been written by then",
    };
    writeln!(out, "  {so_far}")?;
    Ok(())
}

/// The program by its name, and its arguments; if that is too long, paths without their folders.
fn command(meta: &Meta) -> String {
    let name = |word: &String| word.rsplit('/').next().unwrap_or(word).to_string();
    let Some((program, arguments)) = meta.command.split_first() else { return String::new() };
    let text = |arguments: Vec<String>| clean(&[vec![name(program)], arguments].concat().join(" "));
    let is_short = |command: &String| command.chars().count() <= COMMAND_MAX;
    let whole = Some(text(arguments.to_vec())).filter(is_short);
    let command = whole.unwrap_or_else(|| {
        let is_path = |word: &String| word.starts_with('/') && !word.contains(' ');
        text(arguments.iter().map(|word| if is_path(word) { name(word) } else { word.clone() }).collect())
    });
    if is_short(&command) {
        return command;
    }
    command.chars().take(COMMAND_MAX - 1).chain(['…']).collect()
}
