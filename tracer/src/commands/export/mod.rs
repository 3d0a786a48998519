//! `export`: a trace in the formats of other tools.

mod chrome;
mod collapsed;
mod firefox;
mod pprof;
mod speedscope;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use memtrace_analysis::report::export::{Exported, export};
use memtrace_trace::Trace;

use super::output;
use crate::terminal::{Progress, say};
use crate::units::Bytes;

/// Files say who wrote them.
const EXPORTER: &str = concat!("memtrace ", env!("CARGO_PKG_VERSION"));

/// What to export, and how.
#[derive(Args)]
pub struct Export {
    /// Trace directory
    trace: PathBuf,
    /// The format
    #[arg(long, value_enum)]
    format: Format,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Call stacks and bytes at the peak, a line each: FRAME;FRAME;... BYTES
    Collapsed,
    /// JSON for speedscope.app: bytes at the peak, at the end, and allocated
    Speedscope,
    /// A gzipped protobuf for go tool pprof, Pyroscope and others
    Pprof,
    /// JSON for profiler.firefox.com: bytes at the peak, operators, memory over time
    Firefox,
    /// Trace events for ui.perfetto.dev and chrome://tracing: operators, memory over time
    Chrome,
}

impl Format {
    fn file(self) -> &'static str {
        match self {
            Format::Collapsed => "memory.collapsed.txt",
            Format::Speedscope => "memory.speedscope.json",
            Format::Pprof => "memory.pb.gz",
            Format::Firefox => "memory.firefox.json",
            Format::Chrome => "memory.trace.json",
        }
    }

    fn write(self, exported: &Exported) -> Result<Vec<u8>> {
        match self {
            Format::Collapsed => Ok(collapsed::text(exported).into_bytes()),
            Format::Speedscope => speedscope::json(exported),
            Format::Pprof => pprof::gzipped(exported),
            Format::Firefox => firefox::json(exported),
            Format::Chrome => chrome::json(exported),
        }
    }
}

/// `memtrace export`
pub fn run(arguments: &Export) -> Result<ExitCode> {
    let progress = Progress::start("exporting");
    let exported = export(&Trace::open(&arguments.trace)?)?;
    let content = arguments.format.write(&exported)?;
    drop(progress);
    let file = arguments.output.clone().unwrap_or_else(|| arguments.format.file().into());
    output::write(&file, &content)?;
    if !output::is_standard(&file) {
        say(&format!("{} ({})", file.display(), Bytes(content.len() as u64)));
        if exported.spans_left_out > 0 {
            say(&format!("{} short calls of operators are not in it", exported.spans_left_out));
        }
    }
    Ok(ExitCode::SUCCESS)
}
