//! What operators needed.

use std::collections::HashMap;
use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::operators::largest_call;
use memtrace_analysis::report::by_operator;
use memtrace_trace::Trace;
use memtrace_trace::rows::{ArrayInfo, SpanRow};

use super::clean;
use crate::units::{Bytes, Seconds};

pub(super) const OPERATORS_MAX: usize = 20;
/// Columns for names: as many as the longest takes, within these bounds.
const NAME: std::ops::RangeInclusive<usize> = 28..=44;

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
        "operator", "calls", "largest call's input", "input", "working peak", "output", "once", "time"
    )?;
    let shown: Vec<_> =
        groups.iter().take(OPERATORS_MAX).filter_map(|(_, spans)| largest_call(spans)).collect();
    let inputs = trace.spans_of(&shown.iter().map(|span| span.span).collect())?;
    let inputs: HashMap<u32, &Vec<ArrayInfo>> = inputs.iter().map(|row| (row.span, &row.inputs)).collect();
    for ((name, spans), largest) in groups.iter().zip(shown) {
        let once: u64 = spans.iter().map(|span| span.once_bytes).max().unwrap_or(0);
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
            Bytes(once),
            time,
        )?;
    }
    if groups.len() > OPERATORS_MAX {
        writeln!(out, "  and {} more operators (report --json has all)", groups.len() - OPERATORS_MAX)?;
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
