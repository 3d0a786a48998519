//! Spans whose rows change no more: they are to be written, and leave memory.
//!
//! The row of a span that has ended may change as long as its process runs if it is the first call of its
//! operator (one-time bytes), if its own end is still to come, and until all its garbage was found. What was
//! live when the program ended is known later than that: it follows the rows.

use std::collections::VecDeque;

use memtrace_trace::rows::SpanRow;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Spans;
use super::of_process::OfProcess;
use crate::record::state::blocks::Site;
use crate::record::state::memory::BlockKey;

/// Spans that ended with one around them, and whose own end is waited for: an exception or a longjmp has
/// left them, and it never comes; or they were ended in another order than they nest.
const LOST_MAX: usize = 1024;

/// See the module.
#[derive(Default)]
pub(super) struct Settled {
    /// Their numbers.
    next: VecDeque<u32>,
    /// Spans whose own end may be lost.
    lost: VecDeque<u32>,
    /// What was live at the end of spans that were written, by number.
    at_end: FxHashMap<u32, u64>,
}

impl Spans {
    /// The own end of a span that has ended may come, or not.
    pub(super) fn lose_end(&mut self, number: u32) {
        self.settled.lost.push_back(number);
        let last = (self.settled.lost.len() > LOST_MAX).then(|| self.settled.lost.pop_front());
        if let Some(number) = last.flatten() {
            self.forget_id(number);
            self.settle_if_done(number);
        }
    }

    /// The end of the span is not waited for any more.
    fn forget_id(&mut self, number: u32) {
        let Some(span) = self.held.get_mut(number) else { return };
        let Some(id) = span.id.take() else { return };
        let key = (span.row.process, id);
        // Another one may have had the same id since.
        if self.by_id.get(&key) == Some(&number) {
            self.by_id.remove(&key);
        }
    }

    /// A span is to be written if its row changes no more.
    pub(super) fn settle_if_done(&mut self, number: u32) {
        let Some(span) = self.held.get_mut(number).filter(|span| !span.may_change()) else { return };
        let Some(of) = self.of_process.get_mut(&span.row.process) else { return };
        if of.settled(number) {
            of.calls_of(span.operator).left.later(&std::mem::take(&mut span.leftovers));
            self.settled.next.push_back(number);
        }
    }

    /// The process has ended: its spans that still run stay without an end, and what the first call
    /// of an operator left behind, and no later call left again, are its one-time blocks. Returns
    /// those. (They need not be there any more: OpenBLAS unmaps its buffers when the process
    /// exits.)
    pub fn process_ended(&mut self, process: u32) -> FxHashSet<BlockKey> {
        let mut one_time = FxHashSet::default();
        let Some(of) = self.of_process.get_mut(&process) else { return one_time };
        let whole: Vec<u32> = of.whole().collect();
        for number in &whole {
            let Some(span) = self.held.get_mut(*number).filter(|span| span.row.call > 0) else { continue };
            of.calls_of(span.operator).left.later(&std::mem::take(&mut span.leftovers));
        }
        for number in &whole {
            let Some(span) = self.held.get_mut(*number) else { continue };
            self.operators.over(span.operator, span.row.working_peak_bytes);
            if span.row.call > 0 || span.end.is_none() {
                continue;
            }
            let left = std::mem::take(&mut of.calls_of(span.operator).left);
            for block in left.once(std::mem::take(&mut span.leftovers)) {
                span.row.one_time_bytes += block.bytes;
                one_time.insert(block.key);
            }
        }
        one_time
    }

    /// All is known of the process: what is left of its spans is to be written.
    pub fn process_left(&mut self, process: u32) {
        let Some(of) = self.of_process.get_mut(&process).map(std::mem::take) else { return };
        let mut whole: Vec<u32> = of.whole().collect();
        whole.sort_unstable();
        whole.iter().for_each(|number| self.forget_id(*number));
        self.settled.next.extend(whole);
    }

    /// The row of the next span that is to be written, with stamps converted and sites by their ids.
    pub fn next_settled(&mut self, ns: impl Fn(u64) -> i64, id: impl Fn(Site) -> u64) -> Option<SpanRow> {
        let number = self.settled.next.pop_front()?;
        self.held.take(number).map(|span| span.into_row(&ns, &id))
    }

    /// Rows of the spans that may change, in no order.
    pub fn rows(&self, ns: impl Fn(u64) -> i64, id: impl Fn(Site) -> u64) -> impl Iterator<Item = SpanRow> {
        let whole = self.of_process.values().flat_map(OfProcess::whole);
        whole.filter_map(move |number| Some(self.held.get(number)?.row(&ns, &id)))
    }

    /// Rows of those of them that have ended and whose numbers are `wanted`.
    pub fn ended_rows(
        &self,
        ns: impl Fn(u64) -> i64,
        id: impl Fn(Site) -> u64,
        mut wanted: impl FnMut(u32) -> bool,
    ) -> impl Iterator<Item = SpanRow> {
        let ended = self.of_process.values().flat_map(OfProcess::staying);
        let ended = ended.filter(move |number| wanted(*number));
        ended.filter_map(move |number| Some(self.held.get(number)?.row(&ns, &id)))
    }

    /// A block that was allocated in the span was live when its program ended.
    pub fn live_at_end(&mut self, span: Option<u32>, bytes: u64) {
        let Some(number) = span else { return };
        match self.held.get_mut(number) {
            Some(span) => span.row.live_bytes_at_end += bytes,
            None => *self.settled.at_end.entry(number).or_default() += bytes,
        }
    }

    /// What was live at the end of programs of spans that were written, by number, since this was last called.
    pub fn take_live_at_end(&mut self) -> FxHashMap<u32, u64> {
        std::mem::take(&mut self.settled.at_end)
    }

    /// True if spans that were written are to be [forgotten](Spans::keep_only).
    pub fn is_crowded(&self) -> bool {
        self.held.is_crowded()
    }

    /// Forgets spans that were written but for those that live blocks were allocated in, which are these,
    /// those that threads are in, and those around them.
    pub fn keep_only(&mut self, of_blocks: FxHashSet<u32>) {
        let threads = self.places.values().flat_map(|place| place.spans());
        let whole = self.of_process.values().flat_map(OfProcess::whole);
        let named = threads.chain(whole).chain(self.exported.values().copied()).chain(of_blocks);
        self.held.keep_only(named);
    }
}
