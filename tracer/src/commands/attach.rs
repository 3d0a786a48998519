//! `attach`: records a process that runs already.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::output;
use super::report;
use super::usage::sentence;
use crate::record;
use crate::terminal::say;

/// Which process to attach to.
#[derive(Args, Clone)]
pub struct Attach {
    /// The process
    pid: u32,
    /// Directory for the trace [default: memtrace.attach.PID]
    #[arg(short, long, value_name = "DIR", value_parser = output::directory())]
    output: Option<PathBuf>,
    /// Replace the trace in that directory
    #[arg(short, long)]
    force: bool,
    /// Stop after this many seconds; otherwise when it ends, or at Ctrl-C
    #[arg(long, value_name = "N", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// Record calls of a function too, e.g. libc:malloc (microseconds for each call)
    #[arg(long = "uprobe", value_name = "LIBRARY:FUNCTION")]
    functions: Vec<String>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// `memtrace attach`
pub fn run(arguments: &Attach) -> Result<ExitCode> {
    let pid = arguments.pid;
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("memtrace.attach.{pid}")));
    let attach = record::Attach { pid, limit: arguments.seconds, functions: arguments.functions.clone() };
    let options =
        record::Options { replace: arguments.force, ..record::Options::of_running(output.clone(), pid) };
    record::attach(&attach, &options)?;
    if let Err(error) = report::finished(&output, arguments.json) {
        say(&sentence(&error));
    }
    Ok(ExitCode::SUCCESS)
}
