//! What changed from one trace to another: its peaks, operators by shape, lines and processes. What
//! changed most is first.

mod document;
mod lines;
mod moved;
mod operators;
mod processes;

use memtrace_trace::{Meta, Trace};

pub use self::document::{Change, Diff, Figure, Lines, Operator, Process, Side, SourceLine};
use crate::error::Error;
use crate::report::document::Report;
use crate::report::json::{Listed, report};

/// Compares two traces.
///
/// # Errors
/// A table cannot be read.
pub fn diff(before: &Trace, after: &Trace) -> Result<Diff, Error> {
    let reports = [report(before, Listed::spans_of(before)?)?, report(after, Listed::spans_of(after)?)?];
    let (was, is) = (&reports[0], &reports[1]);
    let operators = operators::changes([before, after], [was, is])?;
    Ok(Diff {
        before: side(before, was),
        after: side(after, is),
        figures: figures(was, is),
        lines: lines::changes(before, after)?,
        operators,
        processes: processes::changes(was, is),
        notes: notes(before.meta(), after.meta()),
    })
}

fn side(trace: &Trace, report: &Report) -> Side {
    Side {
        trace: trace.directory().display().to_string(),
        command: report.command.clone(),
        complete: report.complete,
        seconds: report.seconds,
    }
}

/// The figures of whole recordings that summaries begin with.
fn figures(before: &Report, after: &Report) -> Vec<Figure> {
    let figure = |name: &str, unit: &str, of: fn(&Report) -> Option<u64>| {
        let change = Change { before: of(before), after: of(after) };
        let known = change.before.is_some() || change.after.is_some();
        known.then(|| Figure { name: name.into(), unit: unit.into(), change })
    };
    let all = [
        figure("live_bytes", "bytes", |report| Some(report.peak.live_bytes)),
        figure("heap_bytes", "bytes", |report| Some(report.peak.heap_bytes)),
        figure("mapped_bytes", "bytes", |report| Some(report.peak.mapped_bytes)),
        figure("resident_bytes", "bytes", |report| measured(report.peak.resident_bytes)),
        figure("resident_sum_bytes", "bytes", |report| measured(report.peak.resident_sum_bytes)),
        figure("device_used_bytes", "bytes", |report| report.peak.device_used_bytes),
        figure("device_driver_bytes", "bytes", |report| report.peak.device_driver_bytes),
        figure("requested_bytes", "bytes", |report| Some(report.totals.requested_bytes)),
        figure("allocations", "blocks", |report| Some(report.totals.allocations)),
    ];
    all.into_iter().flatten().collect()
}

/// Resident sizes are 0 where they were not sampled.
fn measured(bytes: u64) -> Option<u64> {
    (bytes > 0).then_some(bytes)
}

/// Sentences on what makes two traces hard to compare.
fn notes(before: &Meta, after: &Meta) -> Vec<String> {
    let mut notes = Vec::new();
    for key in ["stacks", "gc", "kernel"] {
        let of = |meta: &Meta| meta.recorded.get(key).cloned().unwrap_or_else(|| "none".into());
        if of(before) != of(after) {
            notes.push(format!(
                "The recordings differ in {key}: {} before, {} after; record both the same way.",
                of(before),
                of(after)
            ));
        }
    }
    for (meta, which) in [(before, "before"), (after, "after")] {
        if !meta.complete {
            notes.push(format!("The trace {which} is not complete: its recording was cut short."));
        }
        if meta.lost.events > 0 {
            notes.push(format!("The trace {which} lost {} events.", meta.lost.events));
        }
    }
    notes
}
