//! What the page says first: how large the peak was, in which operator, and at which line.

use memtrace_trace::{MemoryLimit, Trace};
use serde::Serialize;

use super::{TEXT_MAX, clipped};
use crate::error::Error;
use crate::report::document::{Peak, PlaceAtPeak, Report};
use crate::report::sites::without_stack;

/// What the program was, and what came of it.
#[derive(Debug, Serialize)]
pub struct Headline {
    /// The recorded command and its arguments, as one text.
    pub command: String,
    /// Version of memtrace that recorded it.
    pub memtrace: String,
    /// Where.
    pub host: String,
    /// When, ms since 1970-01-01 UTC.
    pub start_unix_ms: i64,
    /// Length of the recording.
    pub seconds: f64,
    /// Exit status; null if it was not seen to end.
    pub exit: Option<i32>,
    /// False if the recorder died.
    pub complete: bool,
    /// Peaks.
    pub peak: Peak,
    /// When live bytes peaked, ns.
    pub peak_ns: i64,
    /// Where most of the peak was allocated.
    pub place: Option<PlaceAtPeak>,
    /// The operator that ran then.
    pub operator: Option<String>,
    /// The nearest bound of the command's memory: its name and bytes.
    pub limit: Option<(String, u64)>,
    /// Processes that the kernel killed for lack of memory.
    pub killed: usize,
    /// What to call that which no call stack accounts for.
    pub without_stack: &'static str,
}

/// The headline of a trace.
pub fn of(trace: &Trace, report: &Report, operator: Option<&str>) -> Result<Headline, Error> {
    let meta = trace.meta();
    let short = |text: &str| clipped(text, TEXT_MAX).into_owned();
    let limit = |limit: &MemoryLimit| (limit.bytes > 0).then(|| (short(&limit.name), limit.bytes));
    let place = |place: &PlaceAtPeak| PlaceAtPeak {
        place: short(&place.place),
        file: place.file.as_deref().map(short),
        ..place.clone()
    };
    Ok(Headline {
        command: short(&meta.command.join(" ")),
        memtrace: short(&meta.memtrace),
        host: short(&meta.host),
        start_unix_ms: meta.start_unix_ns / 1_000_000,
        seconds: report.seconds,
        exit: meta.exit,
        complete: meta.complete,
        peak: report.peak.clone(),
        peak_ns: meta.peak.peak_ns,
        place: report.places.first().map(place),
        operator: operator.map(Into::into),
        limit: meta.limit.as_ref().and_then(limit),
        killed: meta.out_of_memory.len(),
        without_stack: without_stack(meta),
    })
}
