//! Laws of a model beside what was measured: for the page of a trace.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use memtrace_analysis::model::{Curve, point};
use memtrace_analysis::report::document::{Operator, Report, Span};
use memtrace_analysis::{Law, Model};
use serde::Serialize;

/// Laws that the page has, and bytes of them as text.
const LAWS_MAX: usize = 8;
const TEXT_MAX: usize = 400_000;
/// Runs of a law, and as many calls of the trace, the largest first.
const RUNS_MAX: usize = 60;

/// A law, and what was measured of its operator.
#[derive(Serialize)]
pub struct Shown {
    law: Law,
    /// Null where its runs say nothing to draw.
    curve: Option<Curve>,
    runs: Vec<Run>,
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
pub fn of_trace(model: Model, report: &Report) -> Result<Vec<Shown>> {
    let operator = |law: &Law| report.operators.iter().find(|of| of.name == law.key.operator);
    let known: Vec<String> = model.laws.iter().map(|law| law.key.operator.clone()).collect();
    let mut laws: Vec<Law> = model.laws.into_iter().filter(|law| operator(law).is_some()).collect();
    if laws.is_empty() {
        bail!("the model has no law for an operator of this trace; it has {}", named(&known));
    }
    let peak = |law: &Law| law.trained_on.iter().map(|run| run.working_peak_bytes).max();
    laws.sort_by_key(|law| (law.is_internal(), std::cmp::Reverse(peak(law))));
    let (mut shown, mut bytes) = (Vec::new(), 0);
    for law in laws.into_iter().take(LAWS_MAX) {
        bytes += serde_json::to_string(&law)?.len();
        if bytes > TEXT_MAX {
            break;
        }
        let runs = runs(&law, operator(&law));
        shown.push(Shown { curve: Curve::of(&law).ok(), law, runs });
    }
    if shown.is_empty() {
        bail!("the model's laws for this trace are too large for a page; memtrace plot draws one");
    }
    Ok(shown)
}

/// Some of these names, each one time.
fn named(names: &[String]) -> String {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let shown: Vec<&str> = names.iter().copied().take(LAWS_MAX).collect();
    let more = if names.len() > shown.len() { ", …" } else { "" };
    shown.join(", ") + more
}

fn runs(law: &Law, operator: Option<&Operator>) -> Vec<Run> {
    let fitted = law.trained_on.iter().map(|run| (run.shape.clone(), run.working_peak_bytes));
    let spans = operator.iter().flat_map(|operator| &operator.spans).filter(|span| is_of(span, law));
    let called =
        spans.filter_map(|span| Some((point(&law.variables, &span.inputs)?, span.working_peak_bytes)));
    let mut runs = largest("fit", law, fitted.collect());
    runs.extend(largest("trace", law, called.collect()));
    runs
}

/// True for a call with inputs of the law's types and layouts, and its parameters.
fn is_of(span: &Span, law: &Law) -> bool {
    let key = &law.key;
    let types: Vec<&str> = span.inputs.iter().map(|array| array.dtype.as_str()).collect();
    let layouts: Vec<&str> = span.inputs.iter().map(|array| array.layout.as_str()).collect();
    types.join(",") == key.dtype
        && layouts.join(",") == key.layout
        && key.params.iter().all(|(name, value)| span.params.get(name) == Some(value))
}

fn largest(of: &'static str, law: &Law, calls: BTreeSet<(Vec<u64>, u64)>) -> Vec<Run> {
    let run = |(shape, measured): (Vec<u64>, u64)| {
        let bytes = law.bytes(&shape).ok()?;
        Some(Run { of, shape, measured, law: bytes.working, upper: bytes.working_upper })
    };
    let mut runs: Vec<Run> = calls.into_iter().filter_map(run).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.measured));
    runs.truncate(RUNS_MAX);
    runs
}
