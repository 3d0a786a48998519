//! A trace in the terms that profilers share: call stacks with their bytes, operators over time, and
//! memory over time.

pub mod devices;
mod table;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use memtrace_trace::rows::{FrameRow, SpanRow, TimelineRow};
use memtrace_trace::{Meta, Trace};

use crate::error::Error;
use crate::profile::stacks::{base_name, function, stack};
use crate::report::fold::library;
use crate::report::short_name::short_name;
use crate::report::sites::{at_end, at_peak, without_stack};

pub use table::{Line, table};

/// Calls of operators that an export has, the longest.
const SPANS_MAX: usize = 100_000;
/// Points of memory over time.
const POINTS_MAX: usize = 200_000;

/// What is exported.
#[derive(Debug)]
pub struct Exported {
    /// The recorded command.
    pub command: String,
    /// When the recording began, ns since 1970.
    pub start_unix_ns: i64,
    /// Its length.
    pub duration_ns: i64,
    /// Frames; callers come before what they call.
    pub frames: Vec<Frame>,
    /// Call stacks. One of them has no frame but a name that says so, with what no stack accounts for:
    /// each figure adds up to that of the whole recording.
    pub stacks: Vec<Stack>,
    /// Calls of operators, in the order they began.
    pub spans: Vec<Span>,
    /// Calls that are left out: the shortest.
    pub spans_left_out: usize,
    /// Processes.
    pub processes: Vec<Process>,
    /// Memory over time, in the order of the times.
    pub points: Vec<Point>,
}

/// A frame below its caller.
#[derive(Debug)]
pub struct Frame {
    /// Its caller's place in the list.
    pub parent: Option<usize>,
    /// Its function without types.
    pub function: String,
    /// Its source file; empty if that is not known.
    pub file: String,
    /// The line in that file; 0 if it is not known.
    pub line: u32,
    /// Its package, executable or library.
    pub library: String,
}

/// A call stack.
#[derive(Debug, Clone, Copy)]
pub struct Stack {
    /// Place of its innermost frame.
    pub frame: usize,
    /// Live bytes at the peak of live bytes.
    pub at_peak: u64,
    /// Live bytes when the programs ended.
    pub at_end: u64,
    /// Bytes allocated in all.
    pub allocated: u64,
    /// Blocks allocated.
    pub blocks: u64,
}

/// A call of an operator.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// How long it took.
    pub length_ns: u64,
    /// When it began.
    pub start_ns: u64,
    /// The operator.
    pub operator: String,
    /// Index of its process.
    pub process: u32,
    /// Its thread, as the kernel numbers it.
    pub tid: u32,
    /// Its working peak.
    pub working_peak: u64,
}

impl Span {
    /// When it ended.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.length_ns)
    }
}

/// A process.
#[derive(Debug)]
pub struct Process {
    /// Its index.
    pub process: u32,
    /// Its process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// When it began.
    pub start_ns: u64,
    /// When it was seen to end.
    pub end_ns: Option<u64>,
}

/// The memory of a process at one time.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Index of the process.
    pub process: u32,
    /// When.
    pub time_ns: u64,
    /// Live bytes.
    pub live: u64,
    /// Resident bytes, where they were sampled.
    pub resident: Option<u64>,
}

impl Frame {
    /// `gst3d (run_gst3d.py:41)`, `eigh (numpy)`.
    pub fn label(&self) -> String {
        match (self.line, self.library.as_str()) {
            (1.., _) => format!("{} ({}:{})", self.function, base_name(&self.file), self.line),
            (0, "") if self.file.is_empty() => self.function.clone(),
            (0, "") => format!("{} ({})", self.function, base_name(&self.file)),
            (0, library) => format!("{} ({library})", self.function),
        }
    }
}

impl Exported {
    /// The frames of a call stack by its innermost one.
    pub fn outermost_first(&self, leaf: usize) -> Vec<usize> {
        let mut frames: Vec<usize> =
            std::iter::successors(Some(leaf), |frame| self.frames[*frame].parent).collect();
        frames.reverse();
        frames
    }
}

/// Reads what is exported of a trace.
///
/// # Errors
/// A table cannot be read.
pub fn export(trace: &Trace) -> Result<Exported, Error> {
    let meta = trace.meta();
    let (frames, stacks) = stacks(trace)?;
    let (spans, spans_left_out) = spans(trace, meta)?;
    let process = |row: memtrace_trace::rows::ProcessRow| Process {
        process: row.process,
        pid: row.pid,
        command: row.command,
        start_ns: time(row.start_ns),
        end_ns: row.end_ns.map(time),
    };
    Ok(Exported {
        command: meta.command.join(" "),
        start_unix_ns: meta.start_unix_ns,
        duration_ns: meta.duration_ns,
        frames,
        stacks,
        spans,
        spans_left_out,
        processes: trace.processes()?.into_iter().map(process).collect(),
        points: points(trace)?,
    })
}

fn time(ns: i64) -> u64 {
    ns.max(0) as u64
}

fn stacks(trace: &Trace) -> Result<(Vec<Frame>, Vec<Stack>), Error> {
    let meta = trace.meta();
    let processes = trace.processes()?;
    let end = processes.iter().filter_map(|process| process.live_bytes_at_end).fold(0, u64::saturating_add);
    let (at_peak, at_end) = (at_peak(trace)?, at_end(trace, end)?);
    let rows = trace.frames_of(at_peak.iter().map(|share| share.row.frame))?;
    let mut tree = Tree { rows: &rows, places: HashMap::new(), frames: Vec::new() };
    let nameless = tree.push(nameless(meta));
    let mut stacks = Vec::with_capacity(at_peak.len() + 1);
    for (peak, end) in at_peak.iter().zip(&at_end) {
        stacks.push(Stack {
            frame: tree.place(peak.row.frame).unwrap_or(nameless),
            at_peak: peak.bytes,
            at_end: end.bytes,
            allocated: peak.row.requested_bytes,
            blocks: peak.row.blocks,
        });
    }
    let rest = |all: u64, of: fn(&Stack) -> u64| rest(all, stacks.iter().map(of));
    stacks.push(Stack {
        frame: nameless,
        at_peak: rest(meta.peak.live_bytes, |stack| stack.at_peak),
        at_end: rest(end, |stack| stack.at_end),
        allocated: rest(meta.totals.requested_bytes, |stack| stack.allocated),
        blocks: rest(meta.totals.allocations, |stack| stack.blocks),
    });
    Ok((tree.frames, stacks))
}

/// What the parts leave of a sum; nothing, if stacks that were sampled happen to account for more.
fn rest(all: u64, parts: impl Iterator<Item = u64>) -> u64 {
    all.saturating_sub(parts.fold(0, u64::saturating_add))
}

/// The frame of what no stack accounts for.
fn nameless(meta: &Meta) -> Frame {
    let function = without_stack(meta).into();
    Frame { parent: None, function, file: String::new(), line: 0, library: String::new() }
}

/// Frames in order, and where each one is.
struct Tree<'a> {
    rows: &'a HashMap<u32, FrameRow>,
    places: HashMap<u32, usize>,
    frames: Vec<Frame>,
}

impl Tree<'_> {
    fn push(&mut self, frame: Frame) -> usize {
        self.frames.push(frame);
        self.frames.len() - 1
    }

    /// Where the frame of a row is; `None` if the table has no such row.
    fn place(&mut self, leaf: u32) -> Option<usize> {
        let mut place = None;
        for row in stack(|frame| self.rows.get(&frame), leaf).into_iter().rev() {
            place = Some(match self.places.get(&row.frame) {
                Some(known) => *known,
                None => self.push_row(row, place),
            });
        }
        place
    }

    fn push_row(&mut self, row: &FrameRow, parent: Option<usize>) -> usize {
        let place = self.push(Frame {
            parent,
            function: short_name(&function(row)),
            file: row.file.clone().unwrap_or_default(),
            line: row.line.unwrap_or(0),
            library: library(row),
        });
        self.places.insert(row.frame, place);
        place
    }
}

/// The longest calls that ended, and how many others there are.
fn spans(trace: &Trace, meta: &Meta) -> Result<(Vec<Span>, usize), Error> {
    let threads = trace.threads()?;
    let tids: HashMap<u32, u32> = threads.into_iter().map(|row| (row.thread, row.tid)).collect();
    let mut longest: BinaryHeap<Reverse<Span>> = BinaryHeap::new();
    let mut all = 0;
    trace.each_span_figures(|row: SpanRow| {
        all += 1;
        let end = row.end_ns.unwrap_or(meta.duration_ns);
        longest.push(Reverse(Span {
            length_ns: time(end.saturating_sub(row.start_ns)),
            start_ns: time(row.start_ns),
            operator: row.operator,
            process: row.process,
            tid: tids.get(&row.thread).copied().unwrap_or(row.thread),
            working_peak: row.working_peak_bytes,
        }));
        if longest.len() > SPANS_MAX {
            longest.pop();
        }
    })?;
    let mut spans: Vec<Span> = longest.into_iter().map(|Reverse(span)| span).collect();
    spans.sort_by_key(|span| (span.start_ns, Reverse(span.length_ns), span.tid));
    let left_out = all - spans.len();
    Ok((spans, left_out))
}

/// Memory over time; of a long recording every n-th point, and all peaks.
fn points(trace: &Trace) -> Result<Vec<Point>, Error> {
    let all = trace.row_count(memtrace_trace::Table::Timeline)? as usize;
    let every = all.div_ceil(POINTS_MAX).max(1);
    let (mut points, mut numbers) = (Vec::new(), HashMap::<u32, usize>::new());
    trace.each_timeline(|row: TimelineRow| {
        let number = numbers.entry(row.process).or_default();
        *number += 1;
        if *number % every == 0 || row.reason == "peak" {
            points.push(Point {
                process: row.process,
                time_ns: time(row.time_ns),
                live: row.live_bytes,
                resident: row.resident_bytes,
            });
        }
    })?;
    points.sort_by_key(|point| (point.time_ns, point.process));
    Ok(points)
}
