//! What operators needed.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::operators::Operator;
use memtrace_trace::rows::{ArrayInfo, SpanRow};

use crate::terminal::clean;
use crate::units::{Bytes, Seconds, grouped};

pub(super) const OPERATORS_MAX: usize = 20;
/// Columns for names: as many as the longest takes, within these bounds.
const NAME: std::ops::RangeInclusive<usize> = 28..=44;
/// Columns of the summary's other figures, the shape of an input among them.
const AROUND_NAME: usize = 52;

/// A line for each, of its largest call.
pub fn table(out: &mut String, operators: &[Operator]) -> Result<()> {
    if operators.is_empty() {
        return Ok(());
    }
    let shown = &operators[..operators.len().min(OPERATORS_MAX)];
    let longest = shown.iter().map(|operator| operator.name.chars().count()).max();
    let width = longest.unwrap_or(0).clamp(*NAME.start(), *NAME.end());
    writeln!(out)?;
    writeln!(
        out,
        "  {:<width$} {:>5}  {:<22} {:>9} {:>12} {:>9} {:>9} {:>9}",
        "operator", "calls", "largest call's input", "input", "working peak", "output", "one-time", "time"
    )?;
    for operator in shown {
        let largest = &operator.largest;
        writeln!(
            out,
            "  {:<width$} {:>5}  {:<22} {:>9} {:>12} {:>9} {:>9} {:>9}",
            clean(&operator.name),
            operator.calls,
            input(largest),
            Bytes(largest.input_bytes),
            Bytes(largest.working_peak_bytes),
            Bytes(largest.output_bytes),
            Bytes(operator.one_time_bytes),
            time(largest),
        )?;
    }
    if operators.len() > OPERATORS_MAX {
        writeln!(out, "  and {} more operators (report --json has all)", operators.len() - OPERATORS_MAX)?;
    }
    Ok(())
}

/// A line for each of the largest operators, in as many columns as a screen has.
pub fn summary(out: &mut String, operators: &[Operator], most: usize, columns: usize) -> Result<()> {
    let shown = &operators[..operators.len().min(most)];
    let names = shown.iter().map(|operator| clean(&operator.name).chars().count());
    let Some(longest) = names.max() else { return Ok(()) };
    let width = longest.clamp("operator".len(), (*NAME.end()).min(columns - AROUND_NAME));
    writeln!(out)?;
    writeln!(
        out,
        "  {:>12} {:>6} {:>9}  {:<width$}  largest input",
        "working peak", "calls", "time", "operator"
    )?;
    for operator in shown {
        let (name, span) = (clean(&operator.name), &operator.largest);
        let (time, input) = (time(span), input(span));
        let peak = Bytes(span.working_peak_bytes);
        let line = format!("  {peak:>12} {:>6} {time:>9}  {name:<width$}  {input}", grouped(operator.calls));
        writeln!(out, "{}", line.trim_end())?;
    }
    if operators.len() > most {
        writeln!(out, "  {:>12} more operators", operators.len() - most)?;
    }
    Ok(())
}

fn time(span: &SpanRow) -> String {
    span.end_ns.map_or("cut".into(), |end| Seconds(end.saturating_sub(span.start_ns)).to_string())
}

/// The first of its largest inputs.
fn input(span: &SpanRow) -> String {
    span.inputs.iter().rev().max_by_key(|array| array.bytes).map(array).unwrap_or_default()
}

pub(super) fn array(array: &ArrayInfo) -> String {
    let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
    format!("{} {}", shape.join("×"), clean(&array.dtype))
}
