//! `export`: a trace in the formats of other tools.

mod chrome;
mod collapsed;
mod firefox;
mod memory_viz;
mod nesting;
mod perfetto;
mod pickle;
mod pprof;
mod speedscope;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use memtrace_analysis::report::export::devices::{Device, OnDevices, on_devices};
use memtrace_analysis::report::export::{Exported, export, table as lines};
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
    /// The same in Perfetto's own protobuf, for ui.perfetto.dev and trace_processor
    Perfetto,
    /// Lines as heaptrack's tables have them, separated by tabs: bytes at the peak and leaked, blocks
    Table,
    /// A pickle for pytorch.org/memory_viz: segments and blocks of devices over time
    #[value(name = "memory_viz")]
    MemoryViz,
}

impl Format {
    fn file(self) -> &'static str {
        match self {
            Format::Collapsed => "memory.collapsed.txt",
            Format::Speedscope => "memory.speedscope.json",
            Format::Pprof => "memory.pb.gz",
            Format::Firefox => "memory.firefox.json",
            Format::Chrome => "memory.trace.json",
            Format::Perfetto => "memory.pftrace",
            Format::Table => "memory.tsv",
            Format::MemoryViz => "memory.snapshot.pickle",
        }
    }

    fn write(self, trace: &Trace) -> Result<Written> {
        match self {
            Format::Collapsed => of_host(trace, |exported| Ok((collapsed::text(exported).into_bytes(), 0))),
            Format::Speedscope => of_host(trace, |exported| Ok((speedscope::json(exported)?, 0))),
            Format::Pprof => of_host(trace, |exported| Ok((pprof::gzipped(exported)?, 0))),
            Format::Firefox => of_host(trace, |exported| Ok((firefox::json(exported)?, 0))),
            Format::Chrome => of_host(trace, |exported| Ok((chrome::json(exported)?, 0))),
            Format::Perfetto => of_host(trace, |exported| Ok(perfetto::protobuf(exported))),
            Format::Table => {
                let content = table::text(&lines(trace)?).into_bytes();
                Ok(Written { content, remarks: Vec::new() })
            }
            Format::MemoryViz => of_devices(trace),
        }
    }
}

/// A file, and what is to be said of it.
struct Written {
    content: Vec<u8>,
    remarks: Vec<String>,
}

/// `write` says too how many calls of operators it has left out, since they overlap others.
fn of_host(trace: &Trace, write: impl Fn(&Exported) -> Result<(Vec<u8>, usize)>) -> Result<Written> {
    let exported = export(trace)?;
    let (content, overlapping) = write(&exported)?;
    let left_out = [
        (exported.spans_left_out, "short calls of operators are not in it"),
        (overlapping, "calls of operators are not in it: they overlap 64 others of their thread"),
    ];
    let remarks = left_out.iter().filter(|(calls, _)| *calls > 0);
    let remarks = remarks.map(|(calls, why)| format!("{calls} {why}")).collect();
    Ok(Written { content, remarks })
}

fn of_devices(trace: &Trace) -> Result<Written> {
    let exported = on_devices(trace)?;
    if let Some(why) = exported.missing {
        bail!("memory_viz takes the row of each block of a device: {why}");
    }
    if exported.devices.is_empty() {
        bail!("{} has no allocations on devices, which memory_viz shows", trace.directory().display());
    }
    Ok(Written { content: memory_viz::pickle(&exported), remarks: numbers(&exported) })
}

/// Readers number devices; of one process as its driver does.
fn numbers(exported: &OnDevices) -> Vec<String> {
    let devices = &exported.devices;
    let lists = memory_viz::lists(devices);
    let is_as_it_was = |(list, device): (&usize, &Device)| {
        device.process == devices[0].process && *list == device.number as usize
    };
    if lists.iter().zip(devices).all(is_as_it_was) {
        return Vec::new();
    }
    let number = |(list, device): (&usize, &Device)| {
        format!("device {list} is device {} in process {}", device.number, device.pid)
    };
    lists.iter().zip(devices).map(number).collect()
}

/// `memtrace export`
pub fn run(arguments: &Export) -> Result<ExitCode> {
    let progress = Progress::start("exporting");
    let written = arguments.format.write(&Trace::open(&arguments.trace)?)?;
    drop(progress);
    let file = arguments.output.clone().unwrap_or_else(|| arguments.format.file().into());
    output::write(&file, &written.content)?;
    if !output::is_standard(&file) {
        say(&format!("{} ({})", file.display(), Bytes(written.content.len() as u64)));
        written.remarks.iter().for_each(|remark| say(remark));
    }
    Ok(ExitCode::SUCCESS)
}
