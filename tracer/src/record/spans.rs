//! Spans: who is inside which operator, and the peaks of each, folded as events pass by.

mod garbage;
mod live;
mod resident;

use memtrace_trace::rows::{ArrayInfo, Kind, SpanRow};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;

use self::garbage::Waiting;
pub use self::live::Glance;
pub use self::resident::Told;
use super::curve::Curve;

/// Blocks below this size are left out when a span's leftovers are told apart into output and once bytes.
const LEFTOVER_MIN: u64 = 4096;

/// A block that may outlive its span.
#[derive(Debug, Clone, Copy)]
struct Leftover {
    address: u64,
    alloc: u64,
    bytes: u64,
    kind: Kind,
    output: bool,
}

struct Span {
    row: SpanRow,
    start: u64,
    end: Option<u64>,
    peak: u64,
    live: i64,
    net: i64,
    ordinals: [u32; Kind::COUNT],
    leftovers: Vec<Leftover>,
    compact_at: usize,
    /// Of `live`, where garbage is looked for.
    curve: Option<Curve>,
}

/// What the program says when a span begins.
#[derive(Deserialize, Default)]
#[serde(default)]
struct BeginText {
    name: String,
    inputs: Vec<ArrayInfo>,
    params: serde_json::Map<String, serde_json::Value>,
}

/// What it says when one ends.
#[derive(Deserialize, Default)]
#[serde(default)]
struct EndText {
    outputs: Vec<ArrayInfo>,
    error: Option<String>,
}

/// All spans of a recording.
#[derive(Default)]
pub struct Spans {
    spans: Vec<Span>,
    by_id: FxHashMap<(u32, u64), u32>,
    calls: FxHashMap<(u32, String), u32>,
    /// Per thread, outermost first.
    stacks: Vec<Vec<u32>>,
    /// Texts that were not what the header or the recorder writes.
    pub malformed: u64,
    waiting: Option<Waiting>,
    /// Spans without an end, by process.
    open: FxHashMap<u32, Vec<u32>>,
}

/// Names a block for as long as it lives: address and stamp of its acquire.
pub type BlockKey = (u64, u64);

impl Spans {
    /// The program says that a span begins. Returns its index.
    pub fn begin(&mut self, process: u32, thread: u32, id: u64, stamp: u64, text: &[u8]) -> u32 {
        let begin = serde_json::from_slice::<BeginText>(text).unwrap_or_else(|_| {
            self.malformed += 1;
            BeginText { name: "(malformed)".into(), ..Default::default() }
        });
        let span = self.open(process, thread, stamp, begin.name, begin.inputs, begin.params);
        self.by_id.insert((process, id), span);
        self.stack(thread).push(span);
        span
    }

    /// A span that every block of `thread` belongs to from now on (`--span`).
    pub fn begin_whole(
        &mut self,
        process: u32,
        thread: u32,
        stamp: u64,
        name: &str,
        input: ArrayInfo,
    ) -> u32 {
        self.open(process, thread, stamp, name.to_string(), vec![input], Default::default())
    }

    /// Puts a new thread into a span that is open already.
    pub fn enter(&mut self, thread: u32, span: u32) {
        self.stack(thread).insert(0, span);
    }

    fn stack(&mut self, thread: u32) -> &mut Vec<u32> {
        let index = thread as usize;
        if index >= self.stacks.len() {
            self.stacks.resize_with(index + 1, Vec::new);
        }
        &mut self.stacks[index]
    }

    fn open(
        &mut self,
        process: u32,
        thread: u32,
        stamp: u64,
        operator: String,
        mut inputs: Vec<ArrayInfo>,
        params: serde_json::Map<String, serde_json::Value>,
    ) -> u32 {
        inputs.iter_mut().for_each(complete);
        let call = self.calls.entry((process, operator.clone())).or_insert(0);
        let row = SpanRow {
            span: self.spans.len() as u32,
            parent: self.stacks.get(thread as usize).and_then(|stack| stack.last().copied()),
            process,
            thread,
            operator,
            call: *call,
            input_bytes: inputs.iter().map(|array| array.bytes).sum(),
            inputs,
            params,
            ..SpanRow::default()
        };
        *call += 1;
        let curve = self.curve_of(process);
        self.spans.push(Span {
            row,
            start: stamp,
            end: None,
            peak: stamp,
            live: 0,
            net: 0,
            ordinals: [0; Kind::COUNT],
            leftovers: Vec::new(),
            compact_at: 1024,
            curve,
        });
        let span = self.spans.len() as u32 - 1;
        self.open.entry(process).or_default().push(span);
        span
    }

    /// The program says that a span ended. `alive` tells whether a block is still there. Returns the blocks
    /// that hold its outputs.
    pub fn end(
        &mut self,
        process: u32,
        id: u64,
        stamp: u64,
        text: &[u8],
        alive: impl Fn(BlockKey) -> bool,
    ) -> Vec<BlockKey> {
        let Some(index) = self.by_id.remove(&(process, id)) else { return Vec::new() };
        let end = if text.is_empty() { Ok(EndText::default()) } else { serde_json::from_slice(text) };
        let end: EndText = end.unwrap_or_else(|_| {
            self.malformed += 1;
            EndText::default()
        });
        let thread = self.spans[index as usize].row.thread;
        // Spans that an exception or a longjmp left without an end go with it.
        let stack = self.stack(thread);
        if let Some(depth) = stack.iter().position(|span| *span == index) {
            for inner in stack.split_off(depth) {
                self.spans[inner as usize].close(stamp, &alive);
            }
        }
        self.spans[index as usize].close(stamp, &alive);
        self.forget_closed(process);
        self.spans[index as usize].set_outputs(end)
    }

    /// Closes a span that the tracer opened itself.
    pub fn end_whole(&mut self, span: u32, stamp: u64, alive: impl Fn(BlockKey) -> bool) {
        self.spans[span as usize].close(stamp, &alive);
        self.forget_closed(self.spans[span as usize].row.process);
    }

    fn forget_closed(&mut self, process: u32) {
        if let Some(open) = self.open.get_mut(&process) {
            open.retain(|span| self.spans[*span as usize].end.is_none());
        }
    }

    /// True while `thread` is in no span: what it acquires belongs to nobody.
    #[inline(always)]
    pub fn is_outside(&self, thread: u32) -> bool {
        self.stacks.get(thread as usize).is_none_or(Vec::is_empty)
    }

    /// A block was allocated by `thread`; returns its innermost span and its ordinal there.
    pub fn acquired(
        &mut self,
        thread: u32,
        kind: Kind,
        key: BlockKey,
        bytes: u64,
        counts: bool,
        alive: impl Fn(BlockKey) -> bool,
    ) -> (Option<u32>, u32) {
        let Some(stack @ [.., innermost]) = self.stacks.get(thread as usize).map(Vec::as_slice) else {
            return (None, 0);
        };
        let (address, alloc) = key;
        for index in stack {
            let span = &mut self.spans[*index as usize];
            span.row.allocations += 1;
            if counts {
                span.add(bytes, alloc);
            }
            if bytes >= LEFTOVER_MIN {
                span.compact(&alive);
                span.leftovers.push(Leftover { address, alloc, bytes, kind, output: false });
            }
        }
        let ordinal = &mut self.spans[*innermost as usize].ordinals[kind as usize];
        *ordinal += 1;
        (Some(*innermost), *ordinal - 1)
    }

    /// A block that `span` (or nobody) had allocated was released by `thread`.
    #[inline(always)]
    pub fn released(&mut self, thread: u32, span: Option<u32>, alloc: u64, bytes: u64) {
        if span.is_some() || !self.is_outside(thread) {
            self.released_by_span(thread, span, alloc, bytes);
        }
    }

    fn released_by_span(&mut self, thread: u32, span: Option<u32>, alloc: u64, bytes: u64) {
        let mut owner = span;
        while let Some(index) = owner {
            let span = &mut self.spans[index as usize];
            if span.end.is_none() {
                span.live -= bytes as i64;
                span.net -= bytes as i64;
            }
            owner = span.row.parent;
        }
        let Some(stack) = self.stacks.get(thread as usize) else { return };
        for index in stack {
            let span = &mut self.spans[*index as usize];
            if alloc < span.start {
                span.net -= bytes as i64;
            }
        }
    }

    /// Name of the span's operator.
    pub fn operator(&self, span: u32) -> &str {
        &self.spans[span as usize].row.operator
    }

    /// True while the span runs.
    pub fn is_open(&self, span: u32) -> bool {
        self.spans[span as usize].end.is_none()
    }

    /// The process has ended: its spans that still run stay without an end, and what the first call of an
    /// operator left behind, and no later call left again, is told. Returns those once blocks. (Whether they
    /// are still there does not matter: OpenBLAS unmaps its buffers when the process exits.)
    pub fn process_ended(&mut self, process: u32) -> FxHashSet<BlockKey> {
        self.open.remove(&process);
        let mut once = FxHashSet::default();
        let mut later: FxHashMap<String, FxHashMap<(Kind, u64), usize>> = FxHashMap::default();
        for span in self.spans.iter().filter(|span| span.row.process == process && span.row.call > 0) {
            let mut own: FxHashMap<(Kind, u64), usize> = FxHashMap::default();
            for left in &span.leftovers {
                *own.entry((left.kind, left.bytes)).or_default() += 1;
            }
            let all = later.entry(span.row.operator.clone()).or_default();
            for (what, count) in own {
                let most = all.entry(what).or_default();
                *most = (*most).max(count);
            }
        }
        for span in self.spans.iter_mut().filter(|span| span.row.process == process) {
            if span.row.call > 0 || span.end.is_none() {
                continue;
            }
            let again = later.entry(span.row.operator.clone()).or_default();
            for left in span.leftovers.iter().filter(|left| !left.output) {
                match again.get_mut(&(left.kind, left.bytes)) {
                    Some(count) if *count > 0 => *count -= 1,
                    _ => {
                        span.row.once_bytes += left.bytes;
                        once.insert((left.address, left.alloc));
                    }
                }
            }
            span.leftovers = Vec::new();
        }
        once
    }

    /// The thread is gone.
    pub fn thread_ended(&mut self, thread: u32) {
        self.stack(thread).clear();
    }

    /// Those of the operators that no span has the name of.
    pub fn missing<'a>(&self, operators: &'a [String]) -> impl Iterator<Item = &'a String> {
        operators.iter().filter(|operator| self.spans.iter().all(|span| span.row.operator != **operator))
    }

    /// The rows, with stamps converted.
    pub fn rows(&self, ns: impl Fn(u64) -> i64) -> Vec<SpanRow> {
        let row = |span: &Span| {
            let [gc_independent_bytes, gc_independent_upper_bytes, garbage_at_peak_bytes] = span.bounds();
            SpanRow {
                start_ns: ns(span.start),
                end_ns: span.end.map(&ns),
                peak_ns: ns(span.peak),
                gc_independent_bytes,
                gc_independent_upper_bytes,
                garbage_at_peak_bytes,
                ..span.row.clone()
            }
        };
        self.spans.iter().map(row).collect()
    }
}

impl Span {
    #[inline]
    fn add(&mut self, bytes: u64, stamp: u64) {
        self.live += bytes as i64;
        self.net += bytes as i64;
        if let Some(curve) = &mut self.curve {
            curve.note(stamp, self.live.max(0) as u64);
        }
        if self.live > self.row.working_peak_bytes as i64 {
            self.row.working_peak_bytes = self.live as u64;
            self.peak = stamp;
        }
        self.row.net_peak_bytes = self.row.net_peak_bytes.max(self.net.max(0) as u64);
    }

    fn close(&mut self, stamp: u64, alive: &impl Fn(BlockKey) -> bool) {
        if self.end.is_none() {
            self.end = Some(stamp);
            self.curve.iter_mut().for_each(Curve::rest);
            self.compact_now(alive);
        }
    }

    /// Forgets blocks that are gone, whenever the list has doubled.
    fn compact(&mut self, alive: &impl Fn(BlockKey) -> bool) {
        if self.leftovers.len() >= self.compact_at {
            self.compact_now(alive);
            self.compact_at = (self.leftovers.len() * 2).max(1024);
        }
    }

    fn compact_now(&mut self, alive: &impl Fn(BlockKey) -> bool) {
        self.leftovers.retain(|left| alive((left.address, left.alloc)));
    }

    fn set_outputs(&mut self, end: EndText) -> Vec<BlockKey> {
        let mut outputs = end.outputs;
        outputs.iter_mut().for_each(complete);
        let mut blocks = Vec::new();
        for left in &mut self.leftovers {
            let range = left.address..left.address.saturating_add(left.bytes);
            if outputs.iter().any(|array| array.address != 0 && range.contains(&array.address)) {
                left.output = true;
                blocks.push((left.address, left.alloc));
            }
        }
        self.row.output_bytes = outputs.iter().map(|array| array.bytes).sum();
        self.row.outputs = outputs;
        if let Some(error) = end.error {
            self.row.params.insert("error".into(), error.into());
        }
        blocks
    }
}

/// Fills in the bytes of an array that only says its shape and dtype.
fn complete(array: &mut ArrayInfo) {
    if array.bytes == 0 {
        let digits = array.dtype.trim_start_matches(|c: char| !c.is_ascii_digit());
        let item: u64 = digits.parse().unwrap_or(if array.dtype.ends_with('?') { 1 } else { 0 });
        // NumPy counts text in characters of four bytes.
        let item = if array.dtype.contains('U') { item.saturating_mul(4) } else { item };
        array.bytes = array.shape.iter().fold(item, |bytes, length| bytes.saturating_mul(*length));
    }
}
