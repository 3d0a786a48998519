//! What operators needed.

use std::collections::HashMap;
use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::operators::by_operator;
use memtrace_analysis::report::operators::largest_call;
use memtrace_trace::Trace;
use memtrace_trace::rows::{ArrayInfo, SpanRow};

use crate::terminal::clean;
use crate::units::{Bytes, Seconds, grouped};

pub(super) const OPERATORS_MAX: usize = 20;
/// Columns for names: as many as the longest takes, within these bounds.
const NAME: std::ops::RangeInclusive<usize> = 28..=44;
/// Columns of the summary's other figures, the shape of an input among them.
const AROUND_NAME: usize = 52;

/// A line for each, of its largest call.
pub fn table(out: &mut String, trace: &Trace, spans: &[SpanRow]) -> Result<()> {
    if spans.is_empty() {
        return Ok(());
    }
    let groups = by_operator(spans);
    let longest = groups.iter().take(OPERATORS_MAX).map(|(name, _)| name.chars().count()).max();
    let width = longest.unwrap_or(0).clamp(*NAME.start(), *NAME.end());
    writeln!(out)?;
    writeln!(
        out,
        "  {:<width$} {:>5}  {:<22} {:>9} {:>12} {:>9} {:>9} {:>9}",
        "operator", "calls", "largest call's input", "input", "working peak", "output", "one-time", "time"
    )?;
    let shown: Vec<_> =
        groups.iter().take(OPERATORS_MAX).filter_map(|(_, spans)| largest_call(spans)).collect();
    let inputs = trace.spans_of(&shown.iter().map(|span| span.span).collect())?;
    let inputs: HashMap<u32, &Vec<ArrayInfo>> = inputs.iter().map(|row| (row.span, &row.inputs)).collect();
    for ((name, spans), largest) in groups.iter().zip(shown) {
        let one_time: u64 = spans.iter().map(|span| span.one_time_bytes).max().unwrap_or(0);
        let time = largest.end_ns.map_or("cut".into(), |end| Seconds(end - largest.start_ns).to_string());
        writeln!(
            out,
            "  {:<width$} {:>5}  {:<22} {:>9} {:>12} {:>9} {:>9} {:>9}",
            clean(name),
            spans.len(),
            inputs.get(&largest.span).and_then(|inputs| largest_of(inputs)).map(array).unwrap_or_default(),
            Bytes(largest.input_bytes),
            Bytes(largest.working_peak_bytes),
            Bytes(largest.output_bytes),
            Bytes(one_time),
            time,
        )?;
    }
    if groups.len() > OPERATORS_MAX {
        writeln!(out, "  and {} more operators (report --json has all)", groups.len() - OPERATORS_MAX)?;
    }
    Ok(())
}

/// A line for each of the largest operators, in as many columns as a screen has.
pub fn summary(
    out: &mut String,
    trace: &Trace,
    spans: &[SpanRow],
    most: usize,
    columns: usize,
) -> Result<()> {
    let groups = by_operator(spans);
    let largest: Vec<_> = groups
        .iter()
        .take(most)
        .filter_map(|(name, spans)| Some((clean(name), spans, largest_call(spans)?)))
        .collect();
    let Some(longest) = largest.iter().map(|(name, ..)| name.chars().count()).max() else { return Ok(()) };
    let rows = trace.spans_of(&largest.iter().map(|(.., span)| span.span).collect())?;
    let inputs: HashMap<u32, &Vec<ArrayInfo>> = rows.iter().map(|row| (row.span, &row.inputs)).collect();
    let width = longest.clamp("operator".len(), (*NAME.end()).min(columns - AROUND_NAME));
    writeln!(out)?;
    writeln!(
        out,
        "  {:>12} {:>6} {:>9}  {:<width$}  largest input",
        "working peak", "calls", "time", "operator"
    )?;
    for (name, spans, span) in largest {
        let time = span.end_ns.map_or("cut".into(), |end| Seconds(end - span.start_ns).to_string());
        let input = inputs.get(&span.span).and_then(|inputs| largest_of(inputs)).map(array);
        let (peak, input) = (Bytes(span.working_peak_bytes), input.unwrap_or_default());
        let line =
            format!("  {peak:>12} {:>6} {time:>9}  {name:<width$}  {input}", grouped(spans.len() as u64));
        writeln!(out, "{}", line.trim_end())?;
    }
    if groups.len() > most {
        writeln!(out, "  {:>12} more operators", groups.len() - most)?;
    }
    Ok(())
}

/// The first of the largest.
fn largest_of(arrays: &[ArrayInfo]) -> Option<&ArrayInfo> {
    arrays.iter().rev().max_by_key(|array| array.bytes)
}

pub(super) fn array(array: &ArrayInfo) -> String {
    let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
    format!("{} {}", shape.join("×"), clean(&array.dtype))
}
