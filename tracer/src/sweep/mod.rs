//! `sweep`: records a command at the fewest and cheapest shapes that prove a law, and fits the model.

mod runs;
mod variants;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use memtrace_analysis::fit::fit_profiles;
use memtrace_analysis::profile::Profile;
use memtrace_analysis::sweep::{Attempt, Limits, Next, Range, Stop, next};

use crate::cli::Usage;
use crate::laws::{parse_range, save_and_describe};
use crate::record;
use crate::units::parse_size;
use runs::{Run, Runs};
use variants::{Variant, parse_word};

/// Arguments of `sweep`.
#[derive(Args)]
pub struct Sweep {
    /// The operator, MODULE:FUNCTION; the command should call it at least twice per run
    #[arg(long = "operator", value_name = "NAME", required = true)]
    operators: Vec<String>,
    /// Smallest and largest shape to run, e.g. 40,40,40..220,220,220
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    shapes: (Vec<u64>, Vec<u64>),
    /// Most shapes to run; it stops before when the laws are proved
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Memory that a run may need; none is started that may need more [default: what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory_limit: Option<u64>,
    /// Contents of the input, each to be run at one shape; {contents} becomes their names, e.g. random,constant,sorted,sparse,nan
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_word)]
    contents: Vec<String>,
    /// Memory layouts, each to get its laws; {layout} becomes their names, e.g. C,F,strided
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_word)]
    layouts: Vec<String>,
    /// Byte orders, each to get its laws; {order} becomes their names, e.g. little,big
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_word)]
    byte_orders: Vec<String>,
    /// Where to write the model
    #[arg(long, value_name = "MODEL.json", default_value = "model.json")]
    model: PathBuf,
    /// Directory for the traces; complete ones that are there are used [default: memtrace.sweep.PID]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The command; {shape} becomes 200,100,50, {0} {1} {2} the lengths of the axes
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `memtrace sweep`
pub fn run(arguments: &Sweep) -> Result<ExitCode> {
    let (lower, upper) = arguments.shapes.clone();
    variants::check(arguments, &upper)?;
    let range = Range::new(lower, upper).map_err(Usage::from)?;
    if arguments.runs < memtrace_analysis::verify::MIN_SHAPES {
        let least = memtrace_analysis::verify::MIN_SHAPES;
        bail!(Usage(format!("a law needs at least {least} runs, not {}", arguments.runs)));
    }
    // Found out now rather than after all runs.
    let parent = arguments.model.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        bail!(Usage(format!("there is no directory {} to write the model to", parent.display())));
    }
    let runs = Runs::open(arguments)?;
    let mut profiles = Vec::new();
    let mut notes = Vec::new();
    for variant in variants::laws(arguments) {
        match settle(arguments, &range, &runs, &variant)? {
            Settled::Interrupted(signal) => return Ok(interrupted(&runs, signal)),
            Settled::Found(found, note) => {
                profiles.extend(found);
                notes.extend(note);
            }
        }
    }
    let mut model = fit_profiles(&profiles)?;
    model.notes.extend(notes);
    save_and_describe(&model, &arguments.model)?;
    Ok(ExitCode::SUCCESS)
}

/// What came of one layout and byte order.
enum Settled {
    /// What was recorded, and why it is no more.
    Found(Vec<Profile>, Option<String>),
    /// The user wants an end.
    Interrupted(i32),
}

/// Runs shapes until the planner has no more; then one of them with each of the other contents.
fn settle(arguments: &Sweep, range: &Range, runs: &Runs, variant: &Variant) -> Result<Settled> {
    let mut attempts: Vec<Attempt> = Vec::new();
    let stop = loop {
        let free = arguments.memory_limit.or_else(record::free_memory);
        let limits = Limits { runs: arguments.runs, budget_bytes: free.unwrap_or(u64::MAX) };
        let laws = fit_profiles(&recorded(&attempts)).map(|model| model.laws).unwrap_or_default();
        let shape = match next(range, limits, &attempts, &laws) {
            Next::Stop(stop) => break stop,
            Next::Run(shape) => shape,
        };
        tell(attempts.len(), arguments.runs, &shape, variant);
        match runs.at(variant, &shape)? {
            Run::Recorded(recorded) => attempts.push(Attempt { shape, recorded: Some(*recorded) }),
            Run::Failed(why) => {
                crate::cli::say(&why);
                attempts.push(Attempt { shape, recorded: None });
            }
            Run::Interrupted(signal) => return Ok(Settled::Interrupted(signal)),
        }
    };
    let mut found = recorded(&attempts);
    if stop == Stop::Failed {
        bail!("{stop}; nothing was recorded");
    }
    let good: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.recorded.is_some()).collect();
    let middle = good.get(good.len().min(3) / 2).map(|attempt| attempt.shape.clone());
    for contents in arguments.contents.iter().skip(1) {
        let (Some(shape), other) = (&middle, variant.with_contents(contents)) else { break };
        tell(found.len(), found.len() + 1, shape, &other);
        match runs.at(&other, shape)? {
            Run::Recorded(recorded) => found.push(recorded.profile),
            Run::Failed(why) => crate::cli::say(&why),
            Run::Interrupted(signal) => return Ok(Settled::Interrupted(signal)),
        }
    }
    Ok(Settled::Found(found, (stop != Stop::Proved).then(|| stop.to_string())))
}

fn recorded(attempts: &[Attempt]) -> Vec<Profile> {
    attempts.iter().filter_map(|attempt| Some(attempt.recorded.as_ref()?.profile.clone())).collect()
}

fn tell(done: usize, most: usize, shape: &[u64], variant: &Variant) {
    if std::io::stderr().is_terminal() {
        let shape = joined(shape, "×");
        crate::cli::say(&format!("run {} of at most {most} at {shape}{}", done + 1, variant.words()));
    }
}

fn interrupted(runs: &Runs, signal: i32) -> ExitCode {
    let output = runs.output.display();
    crate::cli::say(&format!("stopped; the same command with -o {output} goes on from here"));
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
}

fn joined(shape: &[u64], separator: &str) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join(separator)
}
