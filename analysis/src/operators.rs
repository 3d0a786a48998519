//! What each operator of a trace needed, one figure for all its spans.

use std::collections::HashMap;

use memtrace_trace::Trace;
use memtrace_trace::rows::SpanRow;

use crate::error::Error;
use crate::report::by_operator;

/// An operator, by its largest call.
pub struct Operator {
    /// Its name.
    pub name: String,
    /// How many spans it has.
    pub calls: u64,
    /// How long those that ended took, together.
    pub total_ns: u64,
    /// Largest once bytes of a process.
    pub once_bytes: u64,
    /// [`largest_call`], with its inputs.
    pub largest: SpanRow,
}

/// The operators of a trace, that with the largest working peak first.
///
/// # Errors
/// A table cannot be read.
pub fn operators(trace: &Trace) -> Result<Vec<Operator>, Error> {
    let unreadable = |error: memtrace_trace::Error| Error::Trace(error.to_string());
    let figures = trace.span_figures().map_err(unreadable)?;
    let groups = by_operator(&figures);
    let largest: Vec<&SpanRow> = groups.iter().filter_map(|(_, spans)| largest_call(spans)).collect();
    let wanted = largest.iter().map(|row| row.span).collect();
    let described = trace.spans_of(&wanted).map_err(unreadable)?;
    let described: HashMap<u32, SpanRow> = described.into_iter().map(|row| (row.span, row)).collect();
    let took = |span: &&SpanRow| span.end_ns.map_or(0, |end| end.saturating_sub(span.start_ns).max(0) as u64);
    let operator = |((name, spans), largest): (&(&str, Vec<&SpanRow>), &SpanRow)| Operator {
        name: (*name).to_owned(),
        calls: spans.len() as u64,
        total_ns: spans.iter().map(took).fold(0, u64::saturating_add),
        once_bytes: spans.iter().map(|span| span.once_bytes).max().unwrap_or(0),
        largest: described.get(&largest.span).unwrap_or(largest).clone(),
    };
    Ok(groups.iter().zip(largest).map(operator).collect())
}

/// Of the steady state where there is any: the first call also pays for what is made once.
pub fn largest_call<'a>(spans: &[&'a SpanRow]) -> Option<&'a SpanRow> {
    let steady = spans.iter().filter(|span| span.call > 0).max_by_key(|span| span.working_peak_bytes);
    steady.or(spans.iter().max_by_key(|span| span.working_peak_bytes)).copied()
}
