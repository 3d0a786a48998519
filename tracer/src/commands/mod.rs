//! The command line: one module for each subcommand.

mod arguments;
mod attach;
mod bound;
mod check;
mod defaults;
mod diff;
mod doctor;
mod export;
mod fit;
mod fitted;
mod flamegraph;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod help;
mod json;
mod law;
mod manuals;
mod markup;
mod merge;
mod output;
mod place;
mod plan;
mod plot;
mod predict;
mod recommend;
mod record;
mod recover;
mod report;
mod sweep;
mod top;
mod usage;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{ArgAction, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::defaults::Defaults;
use self::usage::sentence;
use crate::terminal::{be_quiet, say};

/// Records every allocation of a program, and predicts the peaks of its operators.
#[derive(Parser)]
#[command(name = "memtrace", version, args_conflicts_with_subcommands = true, disable_help_flag = true)]
#[command(max_term_width = 100)]
#[command(override_usage = "memtrace [record] [OPTIONS] COMMAND [ARG]...\n       memtrace SUBCOMMAND ...")]
struct Cli {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    record: record::Record,
    /// Print no summary and no progress
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Print help
    #[arg(short, long, global = true, action = ArgAction::HelpShort)]
    help: Option<bool>,
    /// Print help on every option
    #[arg(long, global = true, action = ArgAction::HelpLong)]
    help_all: Option<bool>,
}

#[derive(Subcommand)]
enum Action {
    /// Run a command and record it (the default)
    Record(record::Record),
    /// Show peaks, operators and processes of a trace
    Report(report::Report),
    /// Draw a flame graph of live memory
    Flamegraph(flamegraph::Flamegraph),
    /// Draw a trace over time, a law of a model, or a plan as an SVG
    Plot(plot::Plot),
    /// Show what changed from one trace to another
    Diff(diff::Compared),
    /// Write a trace for pprof, speedscope, Firefox or Perfetto
    Export(export::Export),
    /// Check a trace or a model against the budgets of memtrace.toml
    Check(check::Check),
    /// Close a trace whose recorder died, with what was live when it was last written
    Recover(recover::Recover),
    /// Record a running process, and its children, from the kernel side (root or CAP_BPF)
    Attach(attach::Attach),
    /// Watch a recording while it runs: processes, operators, memory against its limits
    Top(top::Top),
    /// Say what this machine can record, and what to do about what it cannot
    Doctor(doctor::Doctor),
    /// Record a command at several small shapes and fit a model
    Sweep(sweep::Sweep),
    /// Fit a model to traces
    Fit(fit::Fit),
    /// Make one model of several
    Merge(merge::Merge),
    /// Predict the bytes of an operator at a shape
    Predict(predict::Predict),
    /// Bound what a function needs that was never run, from its source
    Bound(bound::Bound),
    /// Choose chunks that fit a memory limit
    Recommend(recommend::Recommend),
    /// Predict the memory of a pipeline of operators, or cut it into chunks that fit
    Plan(plan::Plan),
    /// Choose which large blocks belong into fast memory, and put them there
    Place(place::Place),
    /// Print completions of the command line for a shell
    Completions(manuals::Completions),
    /// Write manual pages, completions and the command reference
    #[command(hide = true)]
    Manuals(manuals::Manuals),
}

/// Runs the subcommand that the command line names.
pub fn main() -> ExitCode {
    parse().and_then(run).unwrap_or_else(|error| {
        say(&sentence(&error));
        ExitCode::from(usage::status(&error))
    })
}

/// The command line, with the defaults of the nearest `memtrace.toml`.
fn parse() -> Result<Cli> {
    let here = std::env::current_dir().context("there is no working directory; change to one that exists")?;
    let command = help::dress(Cli::command());
    let with_defaults = Defaults::find(&here).and_then(|defaults| {
        let command = match &defaults {
            Some(defaults) => defaults.apply(command.clone())?,
            None => command.clone(),
        };
        Ok((defaults, command))
    });
    let (defaults, command) = with_defaults.inspect_err(|_| print_help_if_wanted(command))?;
    let matches = command.try_get_matches();
    matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| match error.kind() {
        kind if is_help(kind) => error.exit(),
        _ => usage::refusal(&error, &helping(), defaults.as_ref()).into(),
    })
}

/// Help is there even where a file of defaults is wrong.
fn print_help_if_wanted(command: Command) {
    if let Err(error) = command.try_get_matches()
        && is_help(error.kind())
    {
        error.exit();
    }
}

fn is_help(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
}

/// The command whose help says what is right.
fn helping() -> String {
    let (mut command, mut words) = (&Cli::command(), "memtrace".to_owned());
    for word in std::env::args_os().skip(1) {
        let Some(named) = command.find_subcommand(&word) else { break };
        words.push(' ');
        words.push_str(named.get_name());
        command = named;
    }
    words
}

fn run(cli: Cli) -> Result<ExitCode> {
    if cli.quiet {
        be_quiet();
    }
    match cli.action {
        None => record::run(&cli.record),
        Some(Action::Record(arguments)) => record::run(&arguments),
        Some(Action::Report(arguments)) => report::run(&arguments),
        Some(Action::Flamegraph(arguments)) => flamegraph::run(&arguments),
        Some(Action::Plot(arguments)) => plot::run(&arguments),
        Some(Action::Diff(arguments)) => diff::run(&arguments),
        Some(Action::Export(arguments)) => export::run(&arguments),
        Some(Action::Check(arguments)) => check::run(&arguments),
        Some(Action::Recover(arguments)) => recover::run(&arguments),
        Some(Action::Attach(arguments)) => attach::run(&arguments),
        Some(Action::Top(arguments)) => top::run(&arguments),
        Some(Action::Doctor(arguments)) => doctor::run(&arguments),
        Some(Action::Sweep(arguments)) => sweep::run(&arguments),
        Some(Action::Fit(arguments)) => fit::run(&arguments),
        Some(Action::Merge(arguments)) => merge::run(&arguments),
        Some(Action::Bound(arguments)) => bound::run(&arguments),
        Some(Action::Predict(arguments)) => predict::run(&arguments),
        Some(Action::Recommend(arguments)) => recommend::run(&arguments),
        Some(Action::Plan(arguments)) => plan::run(&arguments),
        Some(Action::Place(arguments)) => place::run(&arguments),
        Some(Action::Completions(arguments)) => manuals::completions(&arguments, Cli::command()),
        Some(Action::Manuals(arguments)) => manuals::manuals(&arguments, Cli::command()),
    }
}
