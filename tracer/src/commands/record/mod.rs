//! `record`: runs a command and records it.

mod placeholders;
mod prediction;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::builder::TypedValueParser;
use clap::{Args, CommandFactory};
use memtrace_trace::rows::ArrayInfo;

use self::prediction::PredictionArguments;
use super::Cli;
use super::help::{is_behind_dashes, suggestion};
use super::output;
use super::report;
use super::usage::{Usage, advised, sentence};
use crate::record;
use crate::terminal::say;
use crate::units::{Bytes, Shape, parse_size};

/// Python modules with automatic spans unless others are named.
const AUTOMATIC: [&str; 9] = [
    "numpy.linalg",
    "scipy.ndimage",
    "scipy.fft",
    "scipy.signal",
    "skimage",
    "pandas",
    "xarray",
    "cupy.linalg",
    "cupyx.scipy",
];

const OPERATORS: &str = "Operators";
const SEEN: &str = "What is recorded";
const ON_DISK: &str = "Size of the trace";

/// What to record and where.
#[derive(Args, Clone)]
pub struct Record {
    /// Directory for the trace (%j: job, %r: rank) [default: memtrace.COMMAND.PID]
    #[arg(short, long, value_name = "DIR")]
    #[arg(value_parser = output::directory().try_map(|name| placeholders::filled_in(&name)))]
    output: Option<PathBuf>,
    /// Replace the trace in that directory
    #[arg(short, long)]
    force: bool,
    /// Print the report as JSON; what the command prints goes to standard error
    #[arg(long, hide_short_help = true)]
    json: bool,
    /// Record calls of this Python function as spans (__main__:gst3d)
    #[arg(help_heading = OPERATORS)]
    #[arg(long = "operator", value_name = "MODULE:FUNCTION", value_parser = parse_operator)]
    operators: Vec<String>,
    /// Record calls of these Python modules' functions with large arguments as spans [default:
    /// numpy.linalg,scipy.ndimage,
    /// scipy.fft,scipy.signal,skimage,pandas,xarray,cupy.linalg,cupyx.scipy, or with --operator no
    /// modules]; none: only spans that are named, neither tasks of Dask nor modules of PyTorch
    #[arg(hide_short_help = true, help_heading = OPERATORS)]
    #[arg(long = "auto-operators", value_name = "MODULE,...|none", value_delimiter = ',', value_parser = parse_module)]
    automatic: Vec<String>,
    /// Record the whole command as one span with this name
    #[arg(long, value_name = "NAME", requires = "shape", hide_short_help = true, help_heading = OPERATORS)]
    span: Option<String>,
    /// Shape of that span's input
    #[arg(long, value_name = "N,N,...", requires = "span", hide_short_help = true, help_heading = OPERATORS)]
    shape: Option<Shape>,
    /// Its element type, as NumPy writes it
    #[arg(long, default_value = "f4", requires = "span", value_parser = parse_dtype)]
    #[arg(hide_short_help = true, help_heading = OPERATORS)]
    dtype: String,
    /// Record until the command has ended (and two seconds more for its children), or until all its
    /// children have
    #[arg(long, value_enum, default_value = "main", hide_short_help = true)]
    wait: record::Wait,
    /// Record every Python object (sets PYTHONMALLOC=malloc)
    #[arg(long, help_heading = SEEN)]
    python_allocators: bool,
    /// Distinguish garbage from memory in use (Python): the GC-independent peak
    #[arg(long, value_name = "MODE", value_enum, help_heading = SEEN)]
    gc: Option<record::Collecting>,
    /// Write no row for heap blocks of fewer bytes, only sums by call stack; peaks and totals stay
    /// exact
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "0", hide_default_value = true)]
    #[arg(hide_short_help = true, help_heading = ON_DISK)]
    min_size: u64,
    /// Write no rows of blocks at all: peaks, call stacks, operators and the timeline only
    #[arg(long, conflicts_with = "min_size", hide_short_help = true, help_heading = ON_DISK)]
    aggregate: bool,
    /// Keep the address of every block, not only of large ones and of what is live at the end: half
    /// as much again on disk
    #[arg(long, hide_short_help = true, help_heading = ON_DISK)]
    addresses: bool,
    /// Keep the trace below this size: the oldest rows of blocks are deleted, and the report says
    /// so
    #[arg(long, value_name = "SIZE", value_parser = parse_trace_size, help_heading = ON_DISK)]
    max_trace_size: Option<u64>,
    /// Which blocks are recorded with their call stack: large ones and a sample of the others, all,
    /// or none
    #[arg(long, value_name = "WHICH", value_enum, default_value = "auto")]
    #[arg(hide_short_help = true, help_heading = SEEN)]
    stacks: record::Stacks,
    /// What sees resident memory, faults and kills: BPF programs, /proc, or whichever is allowed
    #[arg(long, value_name = "SOURCE", value_enum, default_value = "auto")]
    #[arg(hide_short_help = true, help_heading = SEEN)]
    kernel: record::Source,
    /// Sample memory accesses: loads and stores, by the processor where it can; what takes the time,
    /// by the clock; first touches, by page faults
    #[arg(long, value_name = "WHICH", value_enum, default_value = "off")]
    #[arg(hide_short_help = true, help_heading = SEEN)]
    accesses: record::Accesses,
    /// Record memory on GPUs: of programs that call CUDA, where there is a driver
    #[arg(long, value_name = "WHICH", value_enum, default_value = "auto")]
    #[arg(hide_short_help = true, help_heading = SEEN)]
    cuda: record::Cuda,
    #[command(flatten)]
    prediction: PredictionArguments,
    /// The command to run
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `memtrace record`
pub fn run(arguments: &Record) -> Result<ExitCode> {
    run_placed(arguments, None)
}

/// The same with large blocks where a plan has them.
pub fn run_placed(arguments: &Record, placing: Option<record::Placing>) -> Result<ExitCode> {
    if arguments.command.is_empty() {
        bail!(Usage("name the command to record, e.g. memtrace python program.py (memtrace --help)".into()));
    }
    let output = arguments.output.clone().unwrap_or_else(|| default_output(&arguments.command[0]));
    let options = arguments.options(output.clone()).map_err(|error| Usage(error.to_string()))?;
    let options = record::Options { placing, ..options };
    let outcome = record::run(&options).map_err(|failure| mistaken(failure, &arguments.command))?;
    match outcome.cut_short {
        Some(why) => say(&advised(why)),
        None => report::finished(&output, arguments.json).unwrap_or_else(|error| say(&sentence(&error))),
    }
    Ok(ExitCode::from(outcome.code as u8))
}

impl Record {
    /// What is to run, with its arguments.
    pub fn command(&self) -> &[OsString] {
        &self.command
    }
}

/// A command that was not found may be a subcommand with a slip in it.
fn mistaken(failure: record::Failure, command: &[OsString]) -> anyhow::Error {
    const NOT_FOUND: i32 = 127;
    let is_slip = failure.code == NOT_FOUND && !is_behind_dashes(command);
    let meant = is_slip.then(|| suggestion(command, &Cli::command())).flatten();
    meant.map_or_else(|| failure.into(), |meant| Usage(meant).into())
}

fn default_output(command: &OsString) -> PathBuf {
    let name = Path::new(command).file_name().unwrap_or(command);
    PathBuf::from(format!("memtrace.{}.{}", name.display(), std::process::id()))
}

impl Record {
    /// What they record into `output`.
    ///
    /// # Errors
    /// The model cannot be read.
    fn options(&self, output: PathBuf) -> Result<record::Options, memtrace_analysis::Error> {
        let span = self.span.clone().zip(self.shape.clone()).map(|(name, Shape(shape))| {
            (name, ArrayInfo { shape, dtype: self.dtype.clone(), layout: "C".into(), ..Default::default() })
        });
        Ok(record::Options {
            output,
            command: self.command.clone(),
            prints_to_stderr: self.json,
            operators: self.operators.clone(),
            automatic: automatic(&self.automatic, !self.operators.is_empty()),
            wait: self.wait,
            python_allocators: self.python_allocators,
            span,
            gc: self.gc,
            keep: record::Keep { min_bytes: self.min_size, none: self.aggregate, addresses: self.addresses },
            max_bytes: self.max_trace_size,
            stacks: self.stacks,
            kernel: self.kernel,
            accesses: self.accesses,
            cuda: self.cuda,
            replace: self.force,
            placing: None,
            prediction: self.prediction.read()?,
        })
    }
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

/// Modules with automatic spans, those that were named or else the usual ones, which are not needed
/// where operators are named; nothing if one is `none`.
fn automatic(modules: &[String], named: bool) -> Option<Vec<String>> {
    match modules {
        [] if named => Some(Vec::new()),
        [] => Some(AUTOMATIC.map(String::from).to_vec()),
        _ if modules.iter().any(|module| module == "none") => None,
        _ => Some(modules.to_vec()),
    }
}
