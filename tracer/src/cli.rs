//! The command line: what is asked for, and exit statuses.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use memtrace_analysis::report;
use memtrace_trace::Trace;
use memtrace_trace::rows::ArrayInfo;

use crate::units::{Bytes, parse_shape, parse_size};
use crate::{bound, doctor, flamegraph, laws, plan, recomputed, record, summary, sweep, symbols, top};

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
    Recommend(laws::Recommend),
    /// Foretell what a pipeline of operators holds, or cut it into chunks that fit
    Plan(plan::Plan),
}

/// Python modules with automatic spans unless others are named.
const AUTOMATIC: [&str; 7] =
    ["numpy.linalg", "scipy.ndimage", "scipy.fft", "scipy.signal", "skimage", "pandas", "xarray"];

/// What to record and where.
#[derive(Args, Clone)]
pub struct Record {
    /// Directory for the trace [default: memtrace.COMMAND.PID]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Record calls of this Python function as spans, e.g. scipy.ndimage:gaussian_filter or __main__:gst3d
    #[arg(long = "operator", value_name = "MODULE:FUNCTION", value_parser = parse_operator)]
    pub operators: Vec<String>,
    /// Record calls of these Python modules' functions with large arguments as spans [default: numpy.linalg,scipy.ndimage,
    /// scipy.fft,scipy.signal,skimage,pandas,xarray, or with --operator no modules]; none: no spans that nobody named,
    /// neither tasks of Dask nor modules of PyTorch
    #[arg(long = "auto-operators", value_name = "MODULE,...|none", value_delimiter = ',', value_parser = parse_module)]
    pub automatic: Vec<String>,
    /// Record the whole command as one span with this name
    #[arg(long, value_name = "NAME", requires = "shape")]
    pub span: Option<String>,
    /// Shape of that span's input
    #[arg(long, value_name = "N,N,...", requires = "span", value_parser = parse_shape_argument)]
    pub shape: Option<Shape>,
    /// Its element type, as NumPy writes it
    #[arg(long, default_value = "f4", requires = "span", value_parser = parse_dtype)]
    pub dtype: String,
    /// Record until the command has ended (and two seconds more for its children), or until all its children have
    #[arg(long, value_enum, default_value = "main")]
    pub wait: record::Wait,
    /// Record every Python object: the interpreter is told to take its memory from malloc (PYTHONMALLOC=malloc)
    #[arg(long)]
    pub python_allocators: bool,
    /// Tell garbage apart from memory in use (Python): the GC-independent peak
    #[arg(long, value_name = "MODE", value_enum)]
    pub gc: Option<record::Collecting>,
    /// Write no row for heap blocks of fewer bytes, only sums by call stack; peaks and totals stay exact
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "0", hide_default_value = true)]
    pub min_size: u64,
    /// Write no rows of blocks at all: peaks, call stacks, operators and the timeline only
    #[arg(long, conflicts_with = "min_size")]
    pub aggregate: bool,
    /// Keep the address of every block, not only of large ones and of what is live at the end: half as much again on disk
    #[arg(long)]
    pub addresses: bool,
    /// Keep the trace below this size: the oldest rows of blocks are deleted, and that is said
    #[arg(long, value_name = "SIZE", value_parser = parse_trace_size)]
    pub max_trace_size: Option<u64>,
    /// Which blocks are recorded with their call stack: large ones and a sample of the others, all, or none
    #[arg(long, value_name = "WHICH", value_enum, default_value = "auto")]
    pub stacks: record::Stacks,
    /// What sees resident memory, faults and kills: BPF programs, /proc, or whichever is allowed
    #[arg(long, value_name = "SOURCE", value_enum, default_value = "auto")]
    pub kernel: record::Source,
    /// Sample memory accesses, to see which blocks are used: by the processor where it can, or first touches by page faults
    #[arg(long, value_name = "WHICH", value_enum, default_value = "off")]
    pub accesses: record::Accesses,
    #[command(flatten)]
    pub foretell: record::Foretell,
    /// Print no summary
    #[arg(short, long)]
    pub quiet: bool,
    /// The command to run
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
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

/// A size that leaves room for the tables that are never deleted.
fn parse_trace_size(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 1 << 20;
    let bytes = parse_size(text)?;
    if bytes < LEAST { Err(format!("a trace needs at least {}", Bytes(LEAST))) } else { Ok(bytes) }
}

/// An element type as NumPy writes it, with its byte order.
fn parse_dtype(text: &str) -> Result<String, String> {
    let plain = text.trim_start_matches(['<', '>', '|', '=']);
    let (kind, size) = plain.split_at_checked(1).unwrap_or_default();
    let known = kind == "?" && size.is_empty() || "biufcmMSUV".contains(kind) && size.parse::<u16>().is_ok();
    if kind.is_empty() || !known {
        return Err(format!("{text:?} is not an element type; write it as NumPy does: f4, f8, i2, u1"));
    }
    let order = match text.chars().next() {
        Some('>') => ">",
        _ if matches!(plain, "b1" | "i1" | "u1" | "?") || "SV".contains(kind) => "|",
        _ => "<",
    };
    Ok(format!("{order}{plain}"))
}

fn parse_operator(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some((module, function)) if !module.is_empty() && !function.is_empty() => Ok(text.to_string()),
        _ => Err("write MODULE:FUNCTION, e.g. scipy.ndimage:gaussian_filter or __main__:gst3d".into()),
    }
}

fn parse_module(text: &str) -> Result<String, String> {
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if text.split('.').all(plain) {
        return Ok(text.to_string());
    }
    Err("write names of Python modules with commas between them, e.g. numpy.linalg,scipy.ndimage, or none"
        .into())
}

/// Modules with automatic spans, those that were named or else the usual ones, which nobody needs who has named
/// operators; nothing if one is `none`.
fn automatic(modules: &[String], named: bool) -> Option<Vec<String>> {
    match modules {
        [] if named => Some(Vec::new()),
        [] => Some(AUTOMATIC.map(String::from).to_vec()),
        _ if modules.iter().any(|module| module == "none") => None,
        _ => Some(modules.to_vec()),
    }
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
        Some(Action::Recommend(arguments)) => laws::recommend(&arguments),
        Some(Action::Plan(arguments)) => plan::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
    })
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
    let options = match options(arguments, output.clone()) {
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

/// What the arguments ask to record into `output`.
///
/// # Errors
/// The model cannot be read.
fn options(arguments: &Record, output: PathBuf) -> Result<record::Options, memtrace_analysis::Error> {
    let span = arguments.span.clone().zip(arguments.shape.clone()).map(|(name, Shape(shape))| {
        (name, ArrayInfo { shape, dtype: arguments.dtype.clone(), layout: "C".into(), ..Default::default() })
    });
    Ok(record::Options {
        output,
        command: arguments.command.clone(),
        operators: arguments.operators.clone(),
        automatic: automatic(&arguments.automatic, !arguments.operators.is_empty()),
        wait: arguments.wait,
        python_allocators: arguments.python_allocators,
        span,
        gc: arguments.gc,
        keep: record::Keep {
            min_bytes: arguments.min_size,
            none: arguments.aggregate,
            addresses: arguments.addresses,
        },
        max_bytes: arguments.max_trace_size,
        stacks: arguments.stacks,
        kernel: arguments.kernel,
        accesses: arguments.accesses,
        foresight: arguments.foretell.read(arguments.quiet)?,
    })
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
