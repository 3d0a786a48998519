//! `sweep`: records a command at several small shapes and fits a model to the traces.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use memtrace_analysis::sweep::{Range, plan};
use memtrace_trace::Trace;

use crate::cli::Usage;
use crate::laws::{fit_and_save, parse_range};
use crate::record;

/// Arguments of `sweep`.
#[derive(Args)]
pub struct Sweep {
    /// The operator, MODULE:FUNCTION; the command should call it at least twice per run
    #[arg(long = "operator", value_name = "NAME", required = true)]
    operators: Vec<String>,
    /// Smallest and largest shape to run, e.g. 37,41,43..60,60,60
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    shapes: (Vec<u64>, Vec<u64>),
    /// Number of runs
    #[arg(long, default_value_t = 4)]
    runs: usize,
    /// Where to write the model
    #[arg(long, value_name = "MODEL.json", default_value = "model.json")]
    model: PathBuf,
    /// Directory for the traces [default: memtrace.sweep.PID]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The command; {shape} becomes 200,100,50, {0} {1} {2} the lengths of the axes
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Bytes per element that the planner aims at: the narrowest type usual for large arrays.
const ITEM_BYTES: u64 = 4;

/// `memtrace sweep`
pub fn run(arguments: &Sweep) -> Result<ExitCode> {
    let (lower, upper) = arguments.shapes.clone();
    let names_shape = fill_in(&arguments.command, &upper) != arguments.command;
    if !names_shape {
        bail!(Usage("the command does not use the shape; write {shape} or {0} {1} … where it goes".into()));
    }
    let range = Range::new(lower, upper).map_err(Usage::from)?;
    let shapes = plan(&range, arguments.runs, ITEM_BYTES).map_err(Usage::from)?;
    // Found out now rather than after all runs.
    let parent = arguments.model.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        bail!(Usage(format!("there is no directory {} to write the model to", parent.display())));
    }
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("memtrace.sweep.{}", std::process::id())));
    let mut traces = Vec::new();
    for (run, shape) in shapes.iter().enumerate() {
        if std::io::stderr().is_terminal() {
            crate::cli::say(&format!("run {} of {} at {}", run + 1, shapes.len(), joined(shape, "×")));
        }
        traces.push(record_at(arguments, shape, &output)?);
    }
    fit_and_save(&traces, &arguments.model)?;
    Ok(ExitCode::SUCCESS)
}

fn record_at(arguments: &Sweep, shape: &[u64], output: &Path) -> Result<Trace> {
    let directory = output.join(joined(shape, "x"));
    let options = record::Options {
        output: directory.clone(),
        command: fill_in(&arguments.command, shape),
        wait: record::Wait::Main,
        python_allocators: false,
        operators: arguments.operators.clone(),
        automatic: None,
        span: None,
        gc: None,
        keep: record::Keep::default(),
        max_bytes: None,
        stacks: record::Stacks::Auto,
        kernel: record::Source::Auto,
        accesses: record::Accesses::Off,
        foresight: None,
    };
    match record::run(&options) {
        Ok(outcome) if outcome.code == 0 => Trace::open(&directory).context("the run left no trace"),
        Ok(outcome) => bail!(
            "the command failed with {} at {}; its trace is {}",
            outcome.code,
            joined(shape, "×"),
            directory.display()
        ),
        Err(failure) => bail!(failure.message),
    }
}

/// The command with a shape in the places meant for it.
fn fill_in(command: &[OsString], shape: &[u64]) -> Vec<OsString> {
    let fill = |argument: &OsString| {
        let Some(text) = argument.to_str() else { return argument.clone() };
        let mut text = text.replace("{shape}", &joined(shape, ","));
        for (axis, length) in shape.iter().enumerate() {
            text = text.replace(&format!("{{{axis}}}"), &length.to_string());
        }
        text.into()
    };
    command.iter().map(fill).collect()
}

fn joined(shape: &[u64], separator: &str) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_take_the_shape() {
        let command = ["run", "--shape={shape}", "{0}", "{2}", "{3}", "{x}"].map(OsString::from);
        let filled = fill_in(&command, &[7, 8, 9]);
        assert_eq!(filled, ["run", "--shape=7,8,9", "7", "9", "{3}", "{x}"].map(OsString::from));
    }
}
