//! Laws of a model beside what was measured: for the page of a trace.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use memtrace_analysis::model::{Curve, point};
use memtrace_analysis::profile;
use memtrace_analysis::report::document::{Operator, Report};
use memtrace_analysis::{Law, Model};
use memtrace_trace::Meta;
use serde::Serialize;

/// Laws that the page has, and bytes of them as text.
const LAWS_MAX: usize = 8;
const TEXT_MAX: usize = 400_000;
/// Runs of a law, and as many calls of the trace, the largest first.
const RUNS_MAX: usize = 60;

/// Laws of operators that the trace has.
#[derive(Default, Serialize)]
pub struct Laws {
    shown: Vec<Shown>,
    /// How many more there are.
    left_out: usize,
}

/// A law, and what was measured of its operator.
#[derive(Serialize)]
struct Shown {
    law: Law,
    /// Null where its runs say nothing to draw.
    curve: Option<Curve>,
    runs: Vec<Run>,
    /// Runs and calls that needed less.
    left_out: usize,
}

/// A call that was measured, and what the law says of its shape.
#[derive(Serialize)]
struct Run {
    /// `fit` or `trace`.
    of: &'static str,
    shape: Vec<u64>,
    measured: u64,
    law: u64,
    upper: u64,
}

/// The laws of operators that the trace has, those of the largest recorded peaks first.
///
/// # Errors
/// The model has none.
pub fn of_trace(model: Model, meta: &Meta, report: &Report) -> Result<Laws> {
    let operator = |law: &Law| report.operators.iter().find(|of| of.name == law.key.operator);
    let known: Vec<String> = model.laws.iter().map(|law| law.key.operator.clone()).collect();
    let mut laws: Vec<Law> = model.laws.into_iter().filter(|law| operator(law).is_some()).collect();
    if laws.is_empty() {
        bail!("the model has no law for an operator of this trace; it has {}", named(&known));
    }
    let peak = |law: &Law| law.trained_on.iter().map(|run| run.working_peak_bytes).max();
    laws.sort_by_key(|law| (law.is_internal(), std::cmp::Reverse(peak(law))));
    let (mut shown, mut room, all) = (Vec::new(), TEXT_MAX, laws.len());
    for law in laws {
        let bytes = serde_json::to_string(&law)?.len();
        if shown.len() == LAWS_MAX || bytes > room {
            continue;
        }
        room -= bytes;
        let (runs, left_out) = runs(&law, operator(&law), profile::threads(meta));
        shown.push(Shown { curve: Curve::of(&law).ok(), law, runs, left_out });
    }
    if shown.is_empty() {
        bail!("the model's laws for this trace are too large for a page; memtrace plot draws one");
    }
    Ok(Laws { left_out: all - shown.len(), shown })
}

/// Some of these names, each one time.
fn named(names: &[String]) -> String {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let shown: Vec<&str> = names.iter().copied().take(LAWS_MAX).collect();
    let more = if names.len() > shown.len() { ", …" } else { "" };
    shown.join(", ") + more
}

/// What was measured of a law's operator, and how much of that is left out.
fn runs(law: &Law, operator: Option<&Operator>, threads: Option<u64>) -> (Vec<Run>, usize) {
    let fitted = law.trained_on.iter().map(|run| (run.shape.clone(), run.working_peak_bytes));
    let spans = operator.iter().flat_map(|operator| &operator.spans);
    let spans = spans.filter(|span| law.is_of(&span.inputs, &span.params, threads));
    let called =
        spans.filter_map(|span| Some((point(&law.variables, &span.inputs)?, span.working_peak_bytes)));
    let (mut runs, fits_left_out) = largest("fit", law, fitted.collect());
    let (calls, calls_left_out) = largest("trace", law, called.collect());
    runs.extend(calls);
    (runs, fits_left_out + calls_left_out)
}

/// Those that needed most, where the law says something of them.
fn largest(of: &'static str, law: &Law, calls: BTreeSet<(Vec<u64>, u64)>) -> (Vec<Run>, usize) {
    let mut calls: Vec<_> = calls.into_iter().collect();
    calls.sort_by_key(|(_, measured)| std::cmp::Reverse(*measured));
    let left_out = calls.len().saturating_sub(RUNS_MAX);
    calls.truncate(RUNS_MAX);
    let run = |(shape, measured): (Vec<u64>, u64)| {
        let bytes = law.bytes(&shape).ok()?;
        Some(Run { of, shape, measured, law: bytes.working, upper: bytes.working_upper })
    };
    (calls.into_iter().filter_map(run).collect(), left_out)
}
