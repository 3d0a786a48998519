//! `memtrace top`: how a recording stands while it runs, on a terminal or as JSON lines.
//!
//! It connects to the socket that the recorder listens on for probes, and requests figures: a
//! recording without clients does nothing for them. What it receives is untrusted text; what it
//! draws or prints is cleaned.

mod browsing;
mod cells;
mod find;
mod history;
mod json;
mod lists;
mod merged;
mod places;
mod recording;
mod screen;
mod several;
mod table;
mod view;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use memtrace_trace::traces_in;

use self::recording::{Ended, Recording, Watched};
use self::several::Several;
use super::usage::Usage;
use crate::live_protocol::EVERY_MIN_MS;
use crate::terminal::say;

/// Which recording to watch, and how.
#[derive(Args)]
pub struct Top {
    /// Trace directory, a directory of traces, or the id of a recorded process or of the memtrace that records it
    #[arg(value_name = "TRACE|PID")]
    recording: OsString,
    /// Print a JSON object for each refresh, one a line; the last has "ended": true
    #[arg(long)]
    json: bool,
    /// With --json: print one object and leave
    #[arg(long, requires = "json")]
    once: bool,
    /// Seconds from one refresh to the next, 0.1 at least
    #[arg(long, value_name = "SECONDS", value_parser = parse_every, default_value = "1")]
    every: Duration,
}

fn parse_every(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    let least = f64::from(EVERY_MIN_MS) / 1000.0;
    if (least..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("write a number of seconds from {least} to 86400"))
    }
}

/// Watches until the recording ends or the user leaves.
pub fn run(arguments: &Top) -> Result<ExitCode> {
    let on_a_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !arguments.json && !on_a_terminal {
        let why =
            "top draws on a terminal and reads keys from it: add --json to follow the figures without one";
        return Err(Usage(why.into()).into());
    }
    let directory = find::directory(&arguments.recording)?;
    let mut recording = watched(&directory, arguments.every)?;
    if arguments.json {
        return json::follow(&mut *recording, arguments.once).map(|()| ExitCode::SUCCESS);
    }
    if let Some(Ended(sentence)) = screen::show(recording)? {
        say(&sentence);
    }
    Ok(ExitCode::SUCCESS)
}

/// The recording in `directory`, or those in directories below it.
fn watched(directory: &Path, every: Duration) -> Result<Box<dyn Watched>> {
    let traces = traces_in(directory).unwrap_or_default();
    if traces.iter().any(|trace| trace != directory) {
        return Ok(Box::new(Several::open(directory, every)?));
    }
    Ok(Box::new(Recording::open(directory, every)?))
}
