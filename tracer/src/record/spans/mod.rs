//! Spans: which thread is inside which operator, and the peaks of each, folded as events pass by.

mod devices;
mod followed;
mod garbage;
mod outputs;
mod resident;
mod span;
mod text;
mod threads;
mod view;

use memtrace_analysis::Model;
use memtrace_trace::rows::{ArrayInfo, Kind, SpanRow};
use rustc_hash::{FxHashMap, FxHashSet};

use self::garbage::Waiting;
pub use self::resident::ResidentChange;
use self::span::{Params, Span};
use self::text::{BeginText, EndText};
use self::threads::Place;
pub use self::view::SpanView;
use crate::record::state::blocks::Site;
use crate::record::state::memory::{BlockKey, Memory};
use crate::record::state::sparse::Sparse;

/// A block that was allocated.
#[derive(Debug, Clone, Copy)]
pub struct Acquired {
    /// Names it.
    pub key: BlockKey,
    /// Requested bytes.
    pub bytes: u64,
    /// Which call made it.
    pub kind: Kind,
    /// It counts for the peaks of spans: heap, or memory of the program's own.
    pub counts: bool,
    /// Where it was allocated, if that is known.
    pub site: Option<Site>,
}

/// All spans of a recording.
#[derive(Default)]
pub struct Spans {
    spans: Vec<Span>,
    by_id: FxHashMap<(u32, u64), u32>,
    /// Of the last span of each operator.
    params: FxHashMap<String, Params>,
    calls: FxHashMap<(u32, String), u32>,
    /// By thread.
    places: Sparse<Place>,
    /// Spans that were exported and not adopted for the last time yet, by process and token.
    exported: FxHashMap<(u32, u64), u32>,
    /// Texts that were not what the header or the recorder writes.
    malformed: u64,
    waiting: Option<Waiting>,
    /// Laws that spans are followed against.
    model: Option<Model>,
    /// Spans without an end, by process.
    open: FxHashMap<u32, Vec<u32>>,
    /// Those of each process, until it has ended; processes that have had some are named on.
    of_process: FxHashMap<u32, Vec<u32>>,
}

impl Spans {
    /// A span begins. Returns its index.
    pub fn begin(&mut self, process: u32, thread: u32, id: u64, stamp: u64, text: &[u8]) -> u32 {
        let begin = BeginText::parse(text, &mut self.malformed);
        let parent = self.parent_of_new(process, thread, begin.within);
        let contextual = begin.within.is_some();
        let (operator, inputs) = (begin.name, begin.inputs.into());
        let last = self.params.entry(operator.clone()).or_default();
        if **last != begin.params {
            *last = Params::new(begin.params);
        }
        let params = last.clone();
        let row = SpanRow { parent, process, thread, operator, inputs, ..SpanRow::default() };
        let span = self.open(row, stamp, contextual);
        self.spans[span as usize].params = params;
        self.follow_new(span);
        self.by_id.insert((process, id), span);
        self.place(thread).innermost = Some(span);
        span
    }

    /// A span that every block of `thread` belongs to from now on (`--span`).
    pub fn begin_whole(
        &mut self,
        process: u32,
        thread: u32,
        stamp: u64,
        name: &str,
        mut input: ArrayInfo,
    ) -> u32 {
        text::complete(&mut input);
        let (operator, inputs) = (name.to_string(), [input].into());
        let row = SpanRow { process, thread, operator, inputs, ..SpanRow::default() };
        let span = self.open(row, stamp, false);
        self.follow_new(span);
        span
    }

    fn open(&mut self, row: SpanRow, stamp: u64, contextual: bool) -> u32 {
        let (span, process) = (self.spans.len() as u32, row.process);
        let calls = self.calls.entry((process, row.operator.clone())).or_insert(0);
        let call = *calls;
        *calls += 1;
        let input_bytes = row.inputs.iter().map(|array| array.bytes).sum();
        let curve = self.curve_of(process);
        let row = SpanRow { span, call, input_bytes, ..row };
        self.spans.push(Span::new(row, stamp, contextual, curve));
        self.open.entry(process).or_default().push(span);
        self.of_process.entry(process).or_default().push(span);
        span
    }

    /// `thread` has ended a span. Returns the blocks that hold its outputs.
    pub fn end(
        &mut self,
        (process, thread): (u32, u32),
        id: u64,
        stamp: u64,
        text: &[u8],
        memory: &impl Memory,
    ) -> Vec<BlockKey> {
        let Some(index) = self.by_id.remove(&(process, id)) else { return Vec::new() };
        let end = EndText::parse(text, &mut self.malformed);
        for inner in self.leave(thread, index) {
            self.spans[inner as usize].close(stamp, memory);
        }
        let span = &mut self.spans[index as usize];
        span.close(stamp, memory);
        let blocks = span.set_outputs(end, memory);
        self.forget_closed(process);
        blocks
    }

    /// Closes a span that the tracer opened itself.
    pub fn end_whole(&mut self, span: u32, stamp: u64, memory: &impl Memory) {
        self.spans[span as usize].close(stamp, memory);
        self.forget_closed(self.spans[span as usize].row.process);
    }

    fn forget_closed(&mut self, process: u32) {
        if let Some(open) = self.open.get_mut(&process) {
            open.retain(|span| self.spans[*span as usize].end.is_none());
        }
    }

    /// True if the process has had spans.
    pub fn have_been_in(&self, process: u32) -> bool {
        self.of_process.contains_key(&process)
    }

    /// True while spans of the process run, and `thread` is in none of them.
    pub fn leave_out(&mut self, process: u32, thread: u32) -> bool {
        let some = self.open.get(&process).is_some_and(|open| !open.is_empty());
        some && self.innermost(thread).is_none()
    }

    /// The arrays that go into a span.
    pub fn inputs(&self, span: u32) -> &[ArrayInfo] {
        &self.spans[span as usize].row.inputs
    }

    /// A block was allocated by `thread`; returns its innermost span and its ordinal there.
    pub fn acquired(
        &mut self,
        thread: u32,
        block: &Acquired,
        alive: impl Fn(BlockKey) -> bool,
    ) -> (Option<u32>, u32) {
        let innermost = self.innermost(thread);
        let mut next = innermost;
        while let Some(index) = next {
            let span = &mut self.spans[index as usize];
            // Others may go on after the span they began in.
            if span.end.is_none() {
                span.acquired(block, &alive);
            }
            next = span.row.parent;
        }
        let Some(index) = innermost else { return (None, 0) };
        let ordinal = &mut self.spans[index as usize].ordinals[block.kind as usize];
        *ordinal += 1;
        (innermost, *ordinal - 1)
    }

    /// A block that `span` (or none) had allocated was released by `thread`.
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
                span.released(bytes);
            }
            owner = span.row.parent;
        }
        let mut inside = self.innermost(thread);
        while let Some(index) = inside {
            let span = &mut self.spans[index as usize];
            if alloc < span.start {
                span.net -= bytes as i64;
            }
            inside = span.row.parent;
        }
    }

    /// Texts that were not what the header or the recorder writes.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Name of the span's operator.
    pub fn operator(&self, span: u32) -> &str {
        &self.spans[span as usize].row.operator
    }

    /// A block that was allocated in the span was live when its program ended.
    pub fn live_at_end(&mut self, span: Option<u32>, bytes: u64) {
        if let Some(span) = span {
            self.spans[span as usize].row.live_bytes_at_end += bytes;
        }
    }

    /// True while the span runs.
    pub fn is_open(&self, span: u32) -> bool {
        self.spans[span as usize].end.is_none()
    }

    /// The process has ended: its spans that still run stay without an end, and what the first call
    /// of an operator left behind, and no later call left again, are its one-time blocks. Returns
    /// those. (They need not be there any more: OpenBLAS unmaps its buffers when the process
    /// exits.)
    pub fn process_ended(&mut self, process: u32) -> FxHashSet<BlockKey> {
        self.open.remove(&process);
        let numbers = self.of_process.get_mut(&process).map(std::mem::take).unwrap_or_default();
        let mut one_time = FxHashSet::default();
        let mut later: FxHashMap<String, FxHashMap<(Kind, u64), usize>> = FxHashMap::default();
        let spans = numbers.iter().map(|number| &self.spans[*number as usize]);
        for span in spans.filter(|span| span.row.call > 0) {
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
        for number in numbers {
            let span = &mut self.spans[number as usize];
            let leftovers = std::mem::take(&mut span.leftovers);
            if span.row.call > 0 || span.end.is_none() {
                continue;
            }
            let again = later.entry(span.row.operator.clone()).or_default();
            // Reserved addresses are no memory: a driver of devices takes hundreds of gigabytes of
            // them.
            let is_memory = |kind: Kind| kind != Kind::MapReserved;
            for left in leftovers.iter().filter(|left| !left.output && is_memory(left.kind)) {
                match again.get_mut(&(left.kind, left.bytes)) {
                    Some(count) if *count > 0 => *count -= 1,
                    _ => {
                        span.row.one_time_bytes += left.bytes;
                        one_time.insert(left.key);
                    }
                }
            }
        }
        one_time
    }

    /// Those of the operators that no span has the name of.
    pub fn missing<'a>(&self, operators: &'a [String]) -> impl Iterator<Item = &'a String> {
        operators.iter().filter(|operator| self.spans.iter().all(|span| span.row.operator != **operator))
    }

    /// One of the rows. See [`Spans::rows`].
    pub fn row(&self, span: u32, ns: impl Fn(u64) -> i64, id: impl Fn(Site) -> u64) -> Option<SpanRow> {
        Some(self.spans.get(span as usize)?.written(&ns, &id))
    }

    /// How many spans there are.
    pub fn count(&self) -> u64 {
        self.spans.len() as u64
    }

    /// The rows, with stamps converted and sites by their ids.
    pub fn rows(
        &self,
        ns: impl Fn(u64) -> i64,
        id: impl Fn(Site) -> u64,
    ) -> impl ExactSizeIterator<Item = SpanRow> {
        self.spans.iter().map(move |span| span.written(&ns, &id))
    }
}

#[cfg(test)]
mod tests;
