//! Spans: which thread is inside which operator, and the peaks of each, folded as events pass by.

mod devices;
mod followed;
mod garbage;
mod held;
mod of_process;
mod one_time;
mod operators;
mod outputs;
mod resident;
mod settled;
mod shared;
mod span;
mod text;
mod threads;
mod view;

use memtrace_analysis::Model;
use memtrace_trace::rows::{ArrayInfo, Kind, SpanRow};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use self::garbage::Waiting;
use self::held::Held;
use self::of_process::OfProcess;
pub use self::operators::OperatorSums;
use self::operators::Operators;
pub use self::resident::ResidentChange;
use self::settled::Settled;
use self::shared::Shared;
use self::span::Span;
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
    held: Held,
    operators: Operators,
    /// By process. Those that have ended and have had spans are named on.
    of_process: FxHashMap<u32, OfProcess>,
    /// Those whose end is still to come.
    by_id: FxHashMap<(u32, u64), u32>,
    arrays: Shared<[ArrayInfo]>,
    params: Shared<Map<String, Value>>,
    /// By thread.
    places: Sparse<Place>,
    /// Spans that were exported and not adopted for the last time yet, by process and token.
    exported: FxHashMap<(u32, u64), u32>,
    /// Texts that were not what the header or the recorder writes.
    malformed: u64,
    waiting: Option<Waiting>,
    /// Laws that spans are followed against.
    model: Option<Model>,
    settled: Settled,
}

impl Spans {
    /// A span begins. Returns its index.
    pub fn begin(&mut self, process: u32, thread: u32, id: u64, stamp: u64, text: &[u8]) -> u32 {
        let begin = BeginText::parse(text, &mut self.malformed);
        let parent = self.parent_of_new(process, thread, begin.within);
        let contextual = begin.within.is_some();
        let inputs = self.arrays.share(begin.inputs.into());
        let params = self.params.share(begin.params.into());
        let row =
            SpanRow { parent, process, thread, operator: begin.name, inputs, params, ..SpanRow::default() };
        let number = self.open(row, stamp, contextual, Some(id));
        self.by_id.insert((process, id), number);
        self.place(thread).innermost = Some(number);
        number
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
        self.open(row, stamp, false, None)
    }

    fn open(&mut self, row: SpanRow, stamp: u64, contextual: bool, id: Option<u64>) -> u32 {
        let (number, process) = (self.held.count(), row.process);
        let operator = self.operators.started(&row.operator);
        let call = self.of_process.entry(process).or_default().began(number, operator);
        let input_bytes = row.inputs.iter().map(|array| array.bytes).sum();
        let row = SpanRow { span: number, call, input_bytes, ..row };
        let mut span = Span::new(row, operator, stamp, contextual);
        span.id = id;
        self.held.push(span);
        self.await_garbage(process, number);
        self.follow_new(number);
        number
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
        let Some(number) = self.by_id.remove(&(process, id)) else { return Vec::new() };
        let end = EndText::parse(text, &mut self.malformed);
        for inner in self.leave(thread, number) {
            if self.close(inner, stamp, memory) {
                self.lose_end(inner);
            }
        }
        self.close(number, stamp, memory);
        let Some(span) = self.held.get_mut(number) else { return Vec::new() };
        span.id = None;
        let blocks = span.set_outputs(end, memory);
        span.row.outputs = self.arrays.share(span.row.outputs.clone());
        self.settle_if_done(number);
        blocks
    }

    /// Closes a span that the tracer opened itself.
    pub fn end_whole(&mut self, number: u32, stamp: u64, memory: &impl Memory) {
        self.close(number, stamp, memory);
    }

    /// False if it had ended.
    fn close(&mut self, number: u32, stamp: u64, memory: &impl Memory) -> bool {
        let Some(span) = self.held.get_mut(number).filter(|span| span.end.is_none()) else { return false };
        span.close(stamp, memory);
        self.operators.finished(span.operator, stamp.saturating_sub(span.start));
        self.operators.over(span.operator, span.row.working_peak_bytes);
        let Some(of) = self.of_process.get_mut(&span.row.process) else { return true };
        of.ended(number);
        if span.row.call == 0 {
            of.calls_of(span.operator).left.first(&span.leftovers);
        }
        true
    }

    /// True if the process has had spans.
    pub fn have_been_in(&self, process: u32) -> bool {
        self.of_process.contains_key(&process)
    }

    /// True while spans of the process run, and `thread` is in none of them.
    pub fn leave_out(&mut self, process: u32, thread: u32) -> bool {
        let some = self.of_process.get(&process).is_some_and(|of| !of.open().is_empty());
        some && self.innermost(thread).is_none()
    }

    /// The arrays that go into a span that runs.
    pub fn inputs(&self, span: u32) -> &[ArrayInfo] {
        self.held.get(span).map_or(&[], |span| &span.row.inputs)
    }

    /// A block was allocated by `thread`; returns its innermost span and its ordinal there.
    pub fn acquired(
        &mut self,
        thread: u32,
        block: &Acquired,
        alive: impl Fn(BlockKey) -> bool,
    ) -> (Option<u32>, u32) {
        let Some(place) = self.places.get_mut(thread) else { return (None, 0) };
        let mut innermost = None;
        self.held.each_running(place.innermost, |span| {
            innermost.get_or_insert_with(|| (span.row.span, span.next_ordinal(block.kind)));
            span.acquired(block, &alive);
        });
        place.innermost = innermost.map(|(span, _)| span);
        (place.innermost, innermost.map_or(0, |(_, ordinal)| ordinal))
    }

    /// Does something to the spans of a process that have no end.
    fn each_open(&mut self, process: u32, mut work: impl FnMut(&mut Span)) {
        let open = self.of_process.get(&process).map_or(&[][..], OfProcess::open);
        for number in open {
            self.held.get_mut(*number).map(&mut work);
        }
    }

    /// A block that `span` (or none) had allocated was released by `thread`.
    #[inline(always)]
    pub fn released(&mut self, thread: u32, span: Option<u32>, alloc: u64, bytes: u64) {
        if span.is_some() || !self.is_outside(thread) {
            self.released_by_span(thread, span, alloc, bytes);
        }
    }

    fn released_by_span(&mut self, thread: u32, span: Option<u32>, alloc: u64, bytes: u64) {
        self.held.each_running(span, |span| span.released(bytes));
        let inside = self.places.get(thread).and_then(|place| place.innermost);
        self.held.each_running(inside, |span| span.net -= if alloc < span.start { bytes as i64 } else { 0 });
    }

    /// Texts that were not what the header or the recorder writes.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Name of the operator of a span that a live block was allocated in.
    pub fn operator(&self, span: u32) -> Option<&str> {
        Some(self.operators.name(self.held.operator(span)?))
    }

    /// The operators, and what their calls come to.
    pub fn operators(&self) -> &[OperatorSums] {
        self.operators.sums()
    }

    /// True while the span runs.
    pub fn is_open(&self, span: u32) -> bool {
        self.held.runs(span)
    }

    /// Those of the operators that no span has the name of.
    pub fn missing<'a>(&self, operators: &'a [String]) -> impl Iterator<Item = &'a String> {
        operators.iter().filter(|operator| !self.operators.is_known(operator))
    }

    /// How many spans there were.
    pub fn count(&self) -> u64 {
        self.held.count().into()
    }
}

#[cfg(test)]
mod tests;
