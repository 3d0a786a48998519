//! What the page needs of spans: the largest of each operator, and the one that ran at the peak.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use memtrace_trace::Trace;
use memtrace_trace::rows::SpanRow;
use rustc_hash::FxHashMap;

use super::blocks::LastBlock;
use super::times::PEAKS;
use super::{NAME_MAX, clipped};
use crate::error::Error;

/// Operators whose working peak is shown by call stack.
const MARKED_MAX: usize = 12;
/// Operators whose live bytes are told apart over time, of those.
const APART_MAX: usize = 8;
/// Spans that are looked at to find the operator that ran at the peak.
const RUNNING_MAX: usize = 10_000;
/// Operators that are told apart.
const OPERATORS_MAX: usize = 10_000;

/// The largest span of an operator.
#[derive(Debug, Clone)]
pub struct Marked {
    /// The operator.
    pub operator: String,
    /// The span.
    pub span: u32,
    /// Which call it is.
    pub call: u32,
    /// Its process.
    pub process: u32,
    /// When its working peak was.
    pub peak_ns: i64,
    /// Its working peak.
    pub working_peak_bytes: u64,
}

/// A span that ran at the peak of live bytes.
#[derive(Debug)]
struct Running {
    span: u32,
    parent: Option<u32>,
    process: u32,
    thread: u32,
    operator: String,
}

/// What a span is inside of, or is: a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Around {
    /// Of the spans marked.
    marked: u16,
    /// Of the operators that are told apart.
    operators: u8,
}

/// The spans of a trace, as far as the page needs them.
#[derive(Debug, Default)]
pub struct Spans {
    /// Of the operators with the largest working peaks, the largest first.
    pub marked: Vec<Marked>,
    /// Those that ran at the peak of live bytes, by their start.
    running: Vec<Running>,
    /// What each span is inside of, if it is anything.
    inside: FxHashMap<u32, Around>,
    /// The largest working peaks, and when they were.
    peaks: BinaryHeap<Reverse<(u64, i64)>>,
}

impl Spans {
    /// Reads them twice: which are marked, and what is inside of those.
    pub fn read(trace: &Trace) -> Result<Spans, Error> {
        let peak = trace.meta().peak.peak_ns;
        let mut largest: BTreeMap<String, Marked> = BTreeMap::new();
        let mut spans = Spans::default();
        trace.each_span_figures(|row| {
            spans.peaks.push(Reverse((row.working_peak_bytes, row.peak_ns)));
            if spans.peaks.len() > PEAKS {
                spans.peaks.pop();
            }
            let runs = row.start_ns <= peak && row.end_ns.is_none_or(|end| peak <= end);
            if runs && spans.running.len() <= RUNNING_MAX {
                spans.running.push(running(&row));
            }
            let is_full = largest.len() == OPERATORS_MAX;
            match largest.get_mut(&row.operator) {
                Some(known) if known.working_peak_bytes >= row.working_peak_bytes => {}
                Some(known) => *known = marked(row),
                None if is_full => {}
                None => drop(largest.insert(row.operator.clone(), marked(row))),
            }
        })?;
        spans.marked = largest.into_values().collect();
        spans.marked.sort_by_key(|marked| Reverse(marked.working_peak_bytes));
        spans.marked.truncate(MARKED_MAX);
        spans.look_inside(trace)?;
        Ok(spans)
    }

    /// The operator that ran at the peak of live bytes: that of the last block, which set the peak,
    /// or of the innermost span of its thread. Where no block is known, the innermost of all spans
    /// that ran, if each ran inside the one before; spans side by side name none.
    pub fn at_peak(&self, last: Option<&LastBlock>) -> Option<&str> {
        if self.running.len() > RUNNING_MAX {
            return None;
        }
        let Some(last) = last else { return innermost(self.running.iter()) };
        let own = self.running.iter().find(|running| Some(running.span) == last.span);
        let of_thread = |running: &&Running| (running.process, running.thread) == (last.process, last.thread);
        own.map(|running| &*running.operator).or_else(|| innermost(self.running.iter().filter(of_thread)))
    }

    fn look_inside(&mut self, trace: &Trace) -> Result<(), Error> {
        let marked: FxHashMap<u32, u16> =
            self.marked.iter().enumerate().map(|(at, marked)| (marked.span, 1 << at)).collect();
        let operators: FxHashMap<String, u8> =
            self.operators().iter().enumerate().map(|(at, of)| (of.operator.clone(), 1 << at)).collect();
        let inside = &mut self.inside;
        trace.each_span_figures(|row| {
            let outer = row.parent.and_then(|parent| inside.get(&parent)).copied().unwrap_or_default();
            let around = Around {
                marked: outer.marked | marked.get(&row.span).copied().unwrap_or(0),
                operators: outer.operators | operators.get(&row.operator).copied().unwrap_or(0),
            };
            if around != Around::default() {
                inside.insert(row.span, around);
            }
        })?;
        Ok(())
    }

    /// The operators that are told apart, by their largest spans.
    pub fn operators(&self) -> &[Marked] {
        &self.marked[..self.marked.len().min(APART_MAX)]
    }

    /// A bit for each of those that this span is inside of, or is a call of.
    pub fn operators_around(&self, span: u32) -> u8 {
        self.inside.get(&span).map_or(0, |around| around.operators)
    }

    /// The places in `marked` of the spans that this span is inside of, or is.
    pub fn around(&self, span: u32) -> impl Iterator<Item = usize> {
        let bits = self.inside.get(&span).map_or(0, |around| around.marked);
        (0..MARKED_MAX).filter(move |at| bits & 1 << at != 0)
    }

    /// Working peaks, and when they were.
    pub fn peaks(&self) -> Vec<(u64, i64)> {
        self.peaks.iter().map(|Reverse(peak)| *peak).collect()
    }
}

/// The last span, if each is inside of the one before.
fn innermost<'a>(running: impl Iterator<Item = &'a Running>) -> Option<&'a str> {
    let mut last: Option<&Running> = None;
    for span in running {
        if last.is_some_and(|around| span.parent != Some(around.span)) {
            return None;
        }
        last = Some(span);
    }
    last.map(|span| &*span.operator)
}

fn running(row: &SpanRow) -> Running {
    Running {
        span: row.span,
        parent: row.parent,
        process: row.process,
        thread: row.thread,
        operator: clipped(&row.operator, NAME_MAX).into(),
    }
}

fn marked(row: SpanRow) -> Marked {
    Marked {
        operator: row.operator,
        span: row.span,
        call: row.call,
        process: row.process,
        peak_ns: row.peak_ns,
        working_peak_bytes: row.working_peak_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(rows: &[(u32, Option<u32>, u32, &str)]) -> Spans {
        let running = |&(span, parent, thread, operator): &(u32, Option<u32>, u32, &str)| Running {
            span,
            parent,
            process: 0,
            thread,
            operator: operator.into(),
        };
        Spans { running: rows.iter().map(running).collect(), ..Spans::default() }
    }

    fn last(thread: u32, span: Option<u32>) -> LastBlock {
        LastBlock { alloc_ns: 1, bytes: 1, process: 0, thread, span }
    }

    #[test]
    fn a_span_that_sleeps_beside_the_one_that_allocates_is_not_named() {
        let side_by_side = spans(&[(0, None, 0, "work"), (1, None, 1, "idle")]);
        assert_eq!(side_by_side.at_peak(Some(&last(0, Some(0)))), Some("work"));
        assert_eq!(side_by_side.at_peak(Some(&last(2, None))), None);
        assert_eq!(side_by_side.at_peak(None), None);
    }

    #[test]
    fn the_innermost_span_of_a_thread_is_named() {
        let nested = spans(&[(0, None, 0, "outer"), (1, Some(0), 0, "inner")]);
        assert_eq!(nested.at_peak(None), Some("inner"));
        // The span of the last block has ended.
        assert_eq!(nested.at_peak(Some(&last(0, Some(7)))), Some("inner"));
        assert_eq!(nested.at_peak(Some(&last(0, Some(0)))), Some("outer"));
        assert_eq!(spans(&[]).at_peak(None), None);
    }
}
