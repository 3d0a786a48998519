//! What is worth a line of the largest operators: where they peaked, what they threw away again,
//! what they keep alive.

use std::collections::HashSet;
use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::profile::places::places;
use memtrace_analysis::report::data_dependence::varying;
use memtrace_analysis::report::operators::Operator;
use memtrace_trace::Trace;
use memtrace_trace::rows::{ArrayInfo, ProcessRow, SpanRow};

use super::operators::array;
use crate::terminal::clean;
use crate::units::Bytes;
use crate::units::grouped;

/// Operators that have a line.
const LINES_MAX: usize = 5;
/// Smaller peaks have none.
const LEAST_BYTES: u64 = 1 << 20;

/// A line for each of the largest operators, of its largest call; and one more if calls of one
/// shape differ.
pub fn lines(out: &mut String, trace: &Trace, operators: &[Operator]) -> Result<()> {
    let is_large = |operator: &&Operator| operator.largest.working_peak_bytes >= LEAST_BYTES;
    let shown: Vec<&Operator> = operators.iter().filter(is_large).take(LINES_MAX).collect();
    let compared = shown.iter().flat_map(|operator| operator.first.iter().copied());
    let wanted: HashSet<u32> = compared.chain(shown.iter().map(|operator| operator.largest.span)).collect();
    let described = trace.spans_of(&wanted)?;
    let places = places(trace, shown.iter().filter_map(|operator| operator.largest.peak_site))?;
    for Operator { name, largest, .. } in shown {
        let place = largest.peak_site.and_then(|site| places.get(&site)).map(String::as_str);
        let words = parts(largest, place);
        if !words.is_empty() {
            writeln!(out, "  {}: {}", clean(name), words.join("; "))?;
        }
        if let Some(group) = varying(described.iter().filter(|row| row.operator == *name)).first() {
            writeln!(
                out,
                "  {}: same shape, different peak: data-dependent ({} to {} in {} calls on {})",
                clean(name),
                Bytes(group.least),
                Bytes(group.most),
                group.calls,
                group.span.inputs.first().map(array).unwrap_or_default()
            )?;
        }
    }
    Ok(())
}

/// How much was allocated outside operators while operators ran.
pub fn unattributed(out: &mut String, processes: &[ProcessRow]) -> Result<()> {
    let bytes: u64 = processes.iter().map(|process| process.unattributed_bytes).sum();
    let blocks: u64 = processes.iter().map(|process| process.unattributed_allocations).sum();
    if bytes >= LEAST_BYTES {
        let (blocks, bytes) = (grouped(blocks), Bytes(bytes));
        writeln!(
            out,
            "  while operators ran, threads in none of them allocated {blocks} blocks, {bytes} in all"
        )?;
    }
    Ok(())
}

fn parts(span: &SpanRow, place: Option<&str>) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(place.map(|place| format!("peak at {}", clean(place))));
    let temporary = span.temporary_peak_bytes.unwrap_or(0);
    if temporary > 0 {
        let share = 100.0 * temporary as f64 / span.working_peak_bytes as f64;
        parts.push(format!("{share:.0} % of it temporaries"));
    }
    let name = |output: &ArrayInfo| if output.of.is_empty() { "an input".into() } else { clean(&output.of) };
    if let Some(output) = span.outputs.iter().find(|output| output.relation == "view") {
        parts.push(format!(
            "output is a view of {} and keeps {} alive",
            name(output),
            Bytes(span.pinned_bytes.unwrap_or(0))
        ));
    } else if let Some(output) = span.outputs.iter().find(|output| output.relation == "in_place") {
        parts.push(format!("output is {} itself", name(output)));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_there_is_to_say() {
        let output = |relation: &str, of: &str| ArrayInfo {
            relation: relation.into(),
            of: of.into(),
            ..ArrayInfo::default()
        };
        let span = SpanRow {
            outputs: [output("new", ""), output("view", "x")].into(),
            working_peak_bytes: 100_000_000,
            temporary_peak_bytes: Some(75_000_000),
            pinned_bytes: Some(12_000_000),
            ..SpanRow::default()
        };
        let words = parts(&span, Some("f run.py:3"));
        assert_eq!(
            words,
            ["peak at f run.py:3", "75 % of it temporaries", "output is a view of x and keeps 12.0 MB alive"]
        );
        let with = |output| SpanRow { outputs: [output].into(), ..SpanRow::default() };
        assert_eq!(parts(&with(output("in_place", "")), None), ["output is an input itself"]);
        assert!(parts(&with(output("new", "")), None).is_empty());
    }
}
