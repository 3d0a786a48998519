//! The command line: what is asked for, and exit statuses.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use memtrace_analysis::report;
use memtrace_trace::Trace;

use crate::arguments::Record;
use crate::units::{Bytes, parse_shape};
use crate::{
    bound, doctor, flamegraph, laws, plan, recommend, recomputed, record, summary, sweep, symbols, top,
};

/// Records every allocation of a program and turns small runs into a law: operator + input shape -> peak bytes.
#[derive(Parser)]
#[command(name = "memtrace", version, args_conflicts_with_subcommands = true)]
#[command(
    override_usage = "memtrace [record] [OPTIONS] -- COMMAND [ARG]...\n       memtrace <attach|top|report|flamegraph|recover|doctor|sweep|fit|merge|predict|bound|recommend|plan> ..."
)]
struct Cli {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    record: Record,
}

#[derive(Subcommand)]
enum Action {
    /// Run a command and record it (the default)
    Record(Record),
    /// Show peaks, operators and processes of a trace
    Report {
        /// Trace directory
        trace: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// With --json: list every span, not only the 1,000 largest of each operator
        #[arg(long, requires = "json")]
        all_spans: bool,
        /// Derive the figures from the rows, and say where they differ from those folded while recording
        #[arg(long, conflicts_with = "all_spans")]
        recompute: bool,
    },
    /// Draw a flame graph of what held memory
    Flamegraph(flamegraph::Flamegraph),
    /// Close a trace whose recorder died, with what was live when it last wrote that down
    Recover {
        /// Trace directory
        trace: PathBuf,
    },
    /// Record a running process, and its children, from the kernel side (root or CAP_BPF)
    Attach(Attach),
    /// Watch a recording while it runs: processes, operators in flight, memory against its limits
    Top(top::Top),
    /// Say what this machine can record, and what to do about what it cannot
    Doctor,
    /// Record a command at several small shapes and fit a model
    Sweep(sweep::Sweep),
    /// Fit a model to traces
    Fit(laws::Fit),
    /// Make one model of several
    Merge(laws::Merge),
    /// Predict the bytes of an operator at a shape
    Predict(laws::Predict),
    /// Bound what a function needs that was never run, from its source
    Bound(bound::Bound),
    /// Choose chunks that fit a memory limit
    Recommend(recommend::Recommend),
    /// Foretell what a pipeline of operators holds, or cut it into chunks that fit
    Plan(plan::Plan),
}

/// Which process to attach to.
#[derive(Args, Clone)]
pub struct Attach {
    /// The process
    pub pid: u32,
    /// Directory for the trace [default: memtrace.attach.PID]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Stop after so many seconds; otherwise when it ends, or at Ctrl-C
    #[arg(long, value_name = "N", value_parser = parse_seconds)]
    pub seconds: Option<std::time::Duration>,
    /// Record calls of a function too, e.g. libc:malloc (microseconds for each call)
    #[arg(long = "uprobe", value_name = "LIBRARY:FUNCTION")]
    pub functions: Vec<String>,
    /// Print no summary
    #[arg(short, long)]
    pub quiet: bool,
}

fn parse_seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    std::time::Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Lengths of the axes of an array.
#[derive(Debug, Clone)]
pub struct Shape(pub Vec<u64>);

/// Reads a shape argument.
pub fn parse_shape_argument(text: &str) -> Result<Shape, String> {
    parse_shape(text).map(Shape)
}

/// Runs what the command line asks for.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.action {
        None => return run_record(&cli.record),
        Some(Action::Record(arguments)) => return run_record(&arguments),
        Some(Action::Report { trace, json, all_spans, recompute }) => {
            show(&trace, json, all_spans, recompute)
        }
        Some(Action::Flamegraph(arguments)) => flamegraph::run(&arguments),
        Some(Action::Recover { trace }) => recover(&trace),
        Some(Action::Attach(arguments)) => return run_attach(&arguments),
        Some(Action::Top(arguments)) => top::run(&arguments),
        Some(Action::Doctor) => print(&doctor::text()).map(|()| ExitCode::SUCCESS),
        Some(Action::Sweep(arguments)) => sweep::run(&arguments),
        Some(Action::Fit(arguments)) => laws::fit(&arguments),
        Some(Action::Merge(arguments)) => laws::merge(&arguments),
        Some(Action::Bound(arguments)) => bound::bound(&arguments),
        Some(Action::Predict(arguments)) => laws::predict(&arguments),
        Some(Action::Recommend(arguments)) => recommend::run(&arguments),
        Some(Action::Plan(arguments)) => plan::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        ExitCode::from(status(&error))
    })
}

/// Exit status for an error: the request makes no sense, a command could not be recorded, or anything else.
fn status(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<record::Failure>() {
        _ if error.is::<Usage>() => 2,
        Some(failure) => failure.code as u8,
        None => 1,
    }
}

/// What was asked for makes no sense, whatever the files say: exit status 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

impl From<memtrace_analysis::Error> for Usage {
    fn from(error: memtrace_analysis::Error) -> Usage {
        Usage(error.to_string())
    }
}

fn run_record(arguments: &Record) -> ExitCode {
    if arguments.command.is_empty() {
        say("no command to record; write memtrace -- COMMAND [ARG]... (memtrace --help)");
        return ExitCode::from(2);
    }
    let output = arguments.output.clone().unwrap_or_else(|| default_output(&arguments.command[0]));
    let options = match arguments.options(output.clone()) {
        Ok(options) => options,
        Err(error) => {
            say(&error.to_string());
            return ExitCode::from(2);
        }
    };
    match record::run(&options) {
        Ok(outcome) => {
            if !arguments.quiet
                && let Err(error) = summarise(&output)
            {
                say(&format!("{error:#}"));
            }
            ExitCode::from(outcome.code as u8)
        }
        Err(failure) => {
            say(&failure.message);
            ExitCode::from(failure.code as u8)
        }
    }
}

fn run_attach(arguments: &Attach) -> ExitCode {
    let pid = arguments.pid;
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("memtrace.attach.{pid}")));
    let attach = record::Attach { pid, limit: arguments.seconds, functions: arguments.functions.clone() };
    match record::attach(&attach, &record::Options::of_running(output.clone(), pid)) {
        Ok(()) => {
            if !arguments.quiet
                && let Err(error) = summarise(&output)
            {
                say(&format!("{error:#}"));
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say(&failure.message);
            ExitCode::from(failure.code as u8)
        }
    }
}

fn default_output(command: &OsString) -> PathBuf {
    let name = std::path::Path::new(command).file_name().unwrap_or(command);
    PathBuf::from(format!("memtrace.{}.{}", name.display(), std::process::id()))
}

fn summarise(output: &PathBuf) -> anyhow::Result<()> {
    to_stderr(&format!("{}  trace: {}\n", summary::text(&Trace::open(output)?)?, output.display()));
    Ok(())
}

fn show(trace: &PathBuf, json: bool, all_spans: bool, recompute: bool) -> anyhow::Result<ExitCode> {
    let trace = Trace::open(trace)?;
    if recompute {
        return recomputed::show(&trace, json);
    }
    let text = if json {
        serde_json::to_string_pretty(&report::json(&trace, all_spans)?)? + "\n"
    } else {
        summary::text(&trace)?
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn recover(directory: &PathBuf) -> anyhow::Result<ExitCode> {
    let found = memtrace_trace::recover(directory)?;
    if found.was_complete {
        say(&format!("{} is complete; nothing was changed", directory.display()));
        return Ok(ExitCode::SUCCESS);
    }
    symbols::name_trace(directory)?;
    say(&format!("closed; {} blocks ({}) were live", found.live_blocks, Bytes(found.live_bytes)));
    to_stderr(&summary::text(&Trace::open(directory)?)?);
    Ok(ExitCode::SUCCESS)
}

/// One sentence of memtrace's own.
pub fn say(sentence: &str) {
    to_stderr(&format!("memtrace: {}\n", summary::clean(sentence)));
}

/// What cannot be written there (a terminal that was closed, a full device) changes nothing else.
fn to_stderr(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Prints a result to stdout, line by line without what a terminal would obey; a reader that has heard enough
/// (`| head`) is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let text: String = text.lines().map(|line| summary::clean(line) + "\n").collect();
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
