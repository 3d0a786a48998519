//! `sweep`: records a command at the fewest and cheapest shapes that prove a law, and fits the
//! model.

mod runs;
mod variants;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use memtrace_analysis::Law;
use memtrace_analysis::fit::fit_profiles;
use memtrace_analysis::profile::Profile;
use memtrace_analysis::shape::joined;
use memtrace_analysis::sweep::{Attempt, Limits, Next, Range, Stop, next, next_data_values};

use self::runs::{Run, Runs};
use self::variants::{Variant, parse_word};
use super::arguments::parse_range;
use super::law::{Described, save_and_describe};
use super::usage::Usage;
use super::{fitted, output};
use crate::record;
use crate::terminal::{Progress, is_quiet, say};
use crate::units::parse_limit;

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
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    memory_limit: Option<u64>,
    /// Data values of the input, each to be run at one shape; {data_values} becomes their names,
    /// e.g. random,constant,sorted,sparse,nan
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_word)]
    data_values: Vec<String>,
    /// Memory layouts, each to get its laws; {layout} becomes their names, e.g. C,F,strided
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_word)]
    layouts: Vec<String>,
    /// Byte orders, each to get its laws; {order} becomes their names, e.g. little,big
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_word)]
    byte_orders: Vec<String>,
    /// Record memory on GPUs: of programs that call CUDA, where there is a driver
    #[arg(long, value_name = "WHICH", value_enum, default_value = "auto")]
    cuda: record::Cuda,
    /// Where to write the model
    #[arg(long, value_name = "MODEL.json", default_value = "model.json")]
    model: PathBuf,
    /// Directory for the traces; complete ones that are there are used [default:
    /// memtrace.sweep.PID]
    #[arg(short, long, value_name = "DIR", value_parser = output::directory())]
    output: Option<PathBuf>,
    /// Print what the model has as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    described: Described,
    /// The command; {shape} becomes 200,100,50, {0} {1} {2} the lengths of the axes. What it prints
    /// goes to standard error
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `memtrace sweep`
pub fn run(arguments: &Sweep) -> Result<ExitCode> {
    let (lower, upper) = arguments.shapes.clone();
    variants::check(arguments, &upper)?;
    let range = Range::new(lower, upper).map_err(Usage::from)?;
    if arguments.runs < memtrace_analysis::law::MIN_SHAPES {
        let least = memtrace_analysis::law::MIN_SHAPES;
        bail!(Usage(format!("a law needs at least {least} runs, not {}", arguments.runs)));
    }
    if output::is_standard(&arguments.model) {
        bail!(Usage("the command may write to standard output, too; write the model to a file".into()));
    }
    // Found out now rather than after all runs.
    output::check_writable(&arguments.model)?;
    let runs = Runs::open(arguments)?;
    let mut profiles = Vec::new();
    let mut notes = Vec::new();
    for variant in variants::laws(arguments) {
        match settle(arguments, &range, &runs, &variant)? {
            Settled::Interrupted(signal) => return Ok(interrupted(&runs, signal)),
            Settled::Found(found, new) => {
                profiles.extend(found);
                notes.extend(new);
            }
        }
    }
    if profiles.is_empty() {
        bail!("{}; nothing was recorded", notes.join("; "));
    }
    let progress = Progress::start("fitting laws");
    let fitted = fit_profiles(&profiles);
    drop(progress);
    let mut model = match fitted {
        Ok(model) => model,
        Err(error) if notes.is_empty() => return Err(error.into()),
        Err(error) => bail!("{error}: {}", notes.join("; ")),
    };
    model.notes.extend(notes);
    if arguments.json {
        return fitted::save(&model, &arguments.model);
    }
    save_and_describe(&model, &arguments.model, &arguments.described, &arguments.operators)?;
    if !is_quiet() {
        let kept = runs.output.display();
        say(&format!("the traces stay in {kept}; a sweep with -o {kept} uses them again"));
    }
    Ok(ExitCode::SUCCESS)
}

/// What came of one layout and byte order.
enum Settled {
    /// What was recorded, and why it is no more, in sentences.
    Found(Vec<Profile>, Vec<String>),
    /// The user wants an end.
    Interrupted(i32),
}

/// Runs shapes until the planner has no more; then one of them with each of the other data values.
fn settle(arguments: &Sweep, range: &Range, runs: &Runs, variant: &Variant) -> Result<Settled> {
    let mut attempts: Vec<Attempt> = Vec::new();
    let stop = loop {
        let shape = match next(range, limits(arguments), &attempts, &laws(&attempts)) {
            Next::Stop(stop) => break stop,
            Next::Run(shape) => shape,
        };
        announce(attempts.len(), arguments.runs, &shape, variant);
        match attempt(runs, variant, shape)? {
            Ok(done) => attempts.push(done),
            Err(signal) => return Ok(Settled::Interrupted(signal)),
        }
    };
    if stop == Stop::Failed {
        // Another layout or byte order may have gone well.
        return Ok(Settled::Found(Vec::new(), vec![format!("{stop}{}", variant.words())]));
    }
    let mut notes: Vec<String> = (stop != Stop::Proved).then(|| stop.to_string()).into_iter().collect();
    for values in arguments.data_values.iter().skip(1) {
        let other = variant.with_data_values(values);
        let shape = match next_data_values(range, limits(arguments), &attempts, &laws(&attempts)) {
            Next::Stop(stop) => {
                notes.push(format!("not run with the data values {values}: {stop}"));
                continue;
            }
            Next::Run(shape) => shape,
        };
        announce(attempts.len(), attempts.len() + 1, &shape, &other);
        match attempt(runs, &other, shape)? {
            // Data values that the command cannot work on prove nothing about a shape.
            Ok(done) => attempts.extend(done.recorded.is_some().then_some(done)),
            Err(signal) => return Ok(Settled::Interrupted(signal)),
        }
    }
    let profiles = attempts.into_iter().filter_map(|attempt| Some(attempt.recorded?.profile));
    Ok(Settled::Found(profiles.collect(), notes))
}

fn limits(arguments: &Sweep) -> Limits {
    let free = arguments.memory_limit.or_else(record::free_memory);
    Limits { runs: arguments.runs, budget_bytes: free.unwrap_or(u64::MAX) }
}

fn laws(attempts: &[Attempt]) -> Vec<Law> {
    let recorded = attempts.iter().filter_map(|attempt| attempt.recorded.as_ref());
    let profiles: Vec<Profile> = recorded.map(|recorded| recorded.profile.clone()).collect();
    fit_profiles(&profiles).map(|model| model.laws).unwrap_or_default()
}

/// Runs the command at a shape; the signal, if one requests the end.
fn attempt(runs: &Runs, variant: &Variant, shape: Vec<u64>) -> Result<Result<Attempt, i32>> {
    Ok(match runs.at(variant, &shape)? {
        Run::Recorded(recorded) => Ok(Attempt { shape, recorded: Some(*recorded) }),
        Run::Failed(why) => {
            say(&why);
            Ok(Attempt { shape, recorded: None })
        }
        Run::Interrupted(signal) => Err(signal),
    })
}

fn announce(done: usize, most: usize, shape: &[u64], variant: &Variant) {
    if std::io::stderr().is_terminal() && !is_quiet() {
        let (run, shape) = (done + 1, joined(shape));
        say(&format!("run {run} of at most {most} at {shape}{}", variant.words()));
    }
}

fn interrupted(runs: &Runs, signal: i32) -> ExitCode {
    let output = runs.output.display();
    say(&format!("stopped; the same command with -o {output} goes on from here"));
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
}
