//! What was recorded, and how it ended.

use std::fmt::Write;

use anyhow::Result;
use memtrace_trace::Meta;

use crate::terminal::clean;
use crate::units::Seconds;

/// Columns for the command.
const COMMAND_MAX: usize = 44;

/// `python run.py: exited 0 after 2.50 s`
pub fn text(meta: &Meta) -> String {
    let ending = match (meta.signal, meta.exit) {
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, Some(code)) => format!("exited {code}"),
        (None, None) => "was not seen to end".into(),
    };
    format!("{}: {ending} after {}", command(meta), Seconds(meta.duration_ns))
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

/// Says so where the recorder did not close the trace.
pub fn cut_short(out: &mut String, meta: &Meta) -> Result<()> {
    if !meta.complete {
        writeln!(out, "  the recording was cut short: this is what had been written by then")?;
    }
    Ok(())
}
