//! What the page needs of spans: the largest of each operator, and the one that ran at the peak.

use std::collections::BTreeMap;

use memtrace_trace::Trace;
use memtrace_trace::rows::SpanRow;
use rustc_hash::FxHashMap;

use crate::error::Error;

/// Operators whose working peak is shown by call stack.
const MARKED_MAX: usize = 12;
/// Spans whose peaks may be among the times of the page.
const PEAKS_MAX: usize = 10_000;
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

/// The spans of a trace, as far as the page needs them.
#[derive(Debug, Default)]
pub struct Spans {
    /// Of the operators with the largest working peaks, the largest first.
    pub marked: Vec<Marked>,
    /// The innermost span that ran at the peak of live bytes.
    pub at_peak: Option<Marked>,
    /// By span, a bit for each of those marked that it is inside of.
    inside: FxHashMap<u32, u16>,
    peaks: Vec<(u64, i64)>,
}

impl Spans {
    /// Reads them twice: which are marked, and what is inside of those.
    pub fn read(trace: &Trace) -> Result<Spans, Error> {
        let peak = trace.meta().peak.peak_ns;
        let mut largest: BTreeMap<String, Marked> = BTreeMap::new();
        let mut at_peak: Option<SpanRow> = None;
        let mut peaks = Vec::new();
        trace.each_span_figures(|row| {
            if peaks.len() < PEAKS_MAX {
                peaks.push((row.working_peak_bytes, row.peak_ns));
            }
            if row.start_ns <= peak && row.end_ns.is_none_or(|end| peak <= end) {
                at_peak = Some(row.clone()); // inner spans come later
            }
            let is_full = largest.len() == OPERATORS_MAX;
            match largest.get_mut(&row.operator) {
                Some(known) if known.working_peak_bytes >= row.working_peak_bytes => {}
                Some(known) => *known = marked(row),
                None if is_full => {}
                None => drop(largest.insert(row.operator.clone(), marked(row))),
            }
        })?;
        let mut marked: Vec<Marked> = largest.into_values().collect();
        marked.sort_by_key(|marked| std::cmp::Reverse(marked.working_peak_bytes));
        marked.truncate(MARKED_MAX);
        let at_peak = at_peak.map(self::marked);
        let mut spans = Spans { marked, at_peak, inside: FxHashMap::default(), peaks };
        spans.look_inside(trace)?;
        Ok(spans)
    }

    fn look_inside(&mut self, trace: &Trace) -> Result<(), Error> {
        let own: FxHashMap<u32, u16> =
            self.marked.iter().enumerate().map(|(at, marked)| (marked.span, 1 << at)).collect();
        let inside = &mut self.inside;
        trace.each_span_figures(|row| {
            let around = row.parent.and_then(|parent| inside.get(&parent)).copied().unwrap_or(0);
            let bits = around | own.get(&row.span).copied().unwrap_or(0);
            if bits != 0 {
                inside.insert(row.span, bits);
            }
        })?;
        Ok(())
    }

    /// The places in `marked` of the spans that this span is inside of, or is.
    pub fn around(&self, span: u32) -> impl Iterator<Item = usize> {
        let bits = self.inside.get(&span).copied().unwrap_or(0);
        (0..MARKED_MAX).filter(move |at| bits & 1 << at != 0)
    }

    /// Working peaks, and when they were.
    pub fn peaks(&self) -> Vec<(u64, i64)> {
        self.peaks.clone()
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
