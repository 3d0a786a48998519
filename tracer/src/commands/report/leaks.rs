//! `report --leaks`: what was live when the program ended.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::leaks::{Leaks, Left, LivePlace, leaks};
use memtrace_trace::Trace;

use super::places::{estimates, figure, is_estimate};
use super::source_text::SourceText;
use super::summary::fitted;
use crate::terminal::{clean, columns_of, print};
use crate::units::{Bytes, grouped};

/// Places and operators listed.
const ROWS_MAX: usize = 15;

/// Prints it, as a table or as JSON.
pub fn show(trace: &Trace, json: bool) -> Result<()> {
    let leaks = leaks(trace)?;
    if json {
        return super::json::print(&leaks);
    }
    print(&text(trace, &leaks, columns_of(&std::io::stdout()))?)
}

fn text(trace: &Trace, leaks: &Leaks, columns: usize) -> Result<String> {
    let mut out = String::new();
    let ended = match leaks.processes {
        0 => {
            writeln!(
                out,
                "The end of the program was not recorded: another one took its place, or it still ran."
            )?;
            return Ok(out);
        }
        1 => "at the end of the program".to_string(),
        many => format!("at the end of {many} processes, in all of them together"),
    };
    writeln!(out, "{} live {ended}, before it tidied up", Bytes(leaks.live_bytes))?;
    writeln!(out, "(what a library keeps on purpose, such as a cache, is part of it)")?;
    places(&mut out, leaks, &mut SourceText::of(trace.meta()), columns)?;
    arenas(&mut out, trace, leaks)?;
    operators(&mut out, leaks)?;
    Ok(out)
}

fn places(out: &mut String, leaks: &Leaks, source: &mut SourceText, columns: usize) -> Result<()> {
    let shown = &leaks.places[..leaks.places.len().min(ROWS_MAX)];
    let labels: Vec<String> = shown.iter().map(|place| clean(&place.place)).collect();
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    writeln!(out)?;
    writeln!(out, "  {:>9} {:>11}  allocated at", "live", "blocks")?;
    for (place, label) in shown.iter().zip(&labels) {
        let is_estimate = is_estimate(place.bytes, place.estimated_bytes);
        let (bytes, blocks) = (figure(place.bytes, is_estimate), grouped(place.blocks));
        let text = source.shown(place.file.as_deref().zip(place.line));
        let line =
            format!("  {bytes:>9} {blocks:>11}  {label:<width$}  {text}", width = longest.min(columns / 2));
        writeln!(out, "{}", fitted(line.trim_end(), columns))?;
    }
    let others = &leaks.places[shown.len()..];
    let sum = |of: fn(&LivePlace) -> u64| others.iter().map(of).fold(0, u64::saturating_add);
    let (other, estimated) = (sum(|place| place.bytes), sum(|place| place.estimated_bytes));
    let other_is_estimate = is_estimate(other, estimated);
    let other = (other, other_is_estimate, "other places");
    for (bytes, is_estimate, what) in [other, (leaks.without_stack_bytes, false, "no call stack")] {
        if bytes > 0 {
            writeln!(out, "  {:>9} {:>11}  {what}", figure(bytes, is_estimate), "")?;
        }
    }
    let any = shown.iter().any(|place| is_estimate(place.bytes, place.estimated_bytes));
    estimates(out, any || other_is_estimate)
}

/// Python's own allocator maps arenas for small objects: a line that mapped one need not be what
/// keeps its objects.
fn arenas(out: &mut String, trace: &Trace, leaks: &Leaks) -> Result<()> {
    let is_python = |place: &LivePlace| place.file.as_deref().is_some_and(|file| file.ends_with(".py"));
    let objects = trace.meta().recorded.contains_key("python_allocators");
    let mut shown = leaks.places.iter().take(ROWS_MAX);
    if !objects && shown.any(|place| place.arenas && is_python(place)) {
        writeln!(
            out,
            "\n  Small objects of Python lie in arenas of up to 1 MB, at the line where one was mapped:"
        )?;
        writeln!(out, "  memtrace --python-allocators shows the lines that made the objects.")?;
    }
    Ok(())
}

fn operators(out: &mut String, leaks: &Leaks) -> Result<()> {
    // Caches of a library grow a little with each call.
    let counts = |left: &&Left| left.bytes.saturating_mul(100) >= leaks.live_bytes;
    let shown: Vec<&Left> = leaks.operators.iter().filter(counts).take(ROWS_MAX).collect();
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "  {:>9} {:>9} {:>15}  allocated in calls of", "live", "per call", "calls")?;
    for left in shown {
        let calls = format!("{} of {}", grouped(left.leaving_calls as u64), grouped(left.calls as u64));
        let (bytes, each) = (Bytes(left.bytes), Bytes(left.bytes_per_call));
        writeln!(out, "  {bytes:>9} {each:>9} {calls:>15}  {}", clean(&left.operator))?;
    }
    Ok(())
}
