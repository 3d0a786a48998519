//! What each operator of a trace needed, one figure for all its spans.

use std::collections::{BTreeMap, HashMap};

use memtrace_trace::Trace;
use memtrace_trace::rows::SpanRow;

use crate::error::Error;

/// An operator, by its largest call.
pub struct Operator {
    /// Its name.
    pub name: String,
    /// How many spans it has.
    pub calls: u64,
    /// How long those that ended took, together.
    pub total_ns: u64,
    /// Largest one-time bytes of a process.
    pub one_time_bytes: u64,
    /// [`largest_call`], with its inputs.
    pub largest: SpanRow,
}

/// The operators of a trace, that with the largest working peak first.
///
/// # Errors
/// A table cannot be read.
pub fn operators(trace: &Trace) -> Result<Vec<Operator>, Error> {
    let figures = trace.span_figures()?;
    let groups = by_operator(&figures);
    let largest: Vec<&SpanRow> = groups.iter().filter_map(|(_, spans)| largest_call(spans)).collect();
    let wanted = largest.iter().map(|row| row.span).collect();
    let described = trace.spans_of(&wanted)?;
    let described: HashMap<u32, SpanRow> = described.into_iter().map(|row| (row.span, row)).collect();
    let took = |span: &&SpanRow| span.end_ns.map_or(0, |end| end.saturating_sub(span.start_ns).max(0) as u64);
    let operator = |((name, spans), largest): (&(&str, Vec<&SpanRow>), &SpanRow)| Operator {
        name: (*name).to_owned(),
        calls: spans.len() as u64,
        total_ns: spans.iter().map(took).fold(0, u64::saturating_add),
        one_time_bytes: spans.iter().map(|span| span.one_time_bytes).max().unwrap_or(0),
        largest: described.get(&largest.span).unwrap_or(largest).clone(),
    };
    let mut operators: Vec<Operator> = groups.iter().zip(largest).map(operator).collect();
    operators.sort_by_key(|operator| std::cmp::Reverse(operator.largest.working_peak_bytes));
    Ok(operators)
}

/// Spans by operator, the operator with the largest working peak first.
pub fn by_operator(spans: &[SpanRow]) -> Vec<(&str, Vec<&SpanRow>)> {
    let mut groups: BTreeMap<&str, Vec<&SpanRow>> = BTreeMap::new();
    for span in spans {
        groups.entry(&span.operator).or_default().push(span);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups
        .sort_by_key(|(_, spans)| std::cmp::Reverse(spans.iter().map(|span| span.working_peak_bytes).max()));
    groups
}

/// Of the steady state where a later call had as large an input: the first call has one-time
/// allocations too.
pub fn largest_call<'a>(spans: &[&'a SpanRow]) -> Option<&'a SpanRow> {
    let input = spans.iter().map(|span| span.input_bytes).max()?;
    let later = |span: &&&SpanRow| span.call > 0;
    let is_steady = spans.iter().filter(later).any(|span| span.input_bytes == input);
    let counts = |span: &&&SpanRow| later(span) || !is_steady;
    spans.iter().filter(counts).max_by_key(|span| span.working_peak_bytes).copied()
}
