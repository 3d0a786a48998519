//! Operators by the shapes of their inputs, and their spans over time, out of the report.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use super::{NAME_MAX, clipped};
use crate::report::document::{Report, Span};
use crate::report::shapes::{Shape, shapes as all_shapes};

/// Operators and shapes that the page has.
const SHAPES_MAX: usize = 400;
/// Spans that are drawn over time.
const SPANS_MAX: usize = 3000;

/// Columns of spans, by their start.
#[derive(Debug, Default, Serialize)]
pub struct Lanes {
    /// Names of operators.
    pub operators: Vec<String>,
    /// The operator of each span.
    pub operator: Vec<u32>,
    /// Index of its process.
    pub process: Vec<u32>,
    /// How many of the listed spans it is inside of.
    pub depth: Vec<u32>,
    /// When it began, µs.
    pub start: Vec<u64>,
    /// How long it took, µs.
    pub length: Vec<u64>,
    /// Its working peak.
    pub working_peak: Vec<u64>,
    /// Spans that are not listed.
    pub left_out: usize,
}

/// What the table of operators leaves out.
#[derive(Debug, Serialize)]
pub struct LeftOut {
    /// Smaller calls, which the report does not list.
    pub calls: usize,
    /// Operators and shapes whose calls need less memory than those of the others.
    pub shapes: usize,
}

/// Operators and shapes, those with the largest working peak first, and what of them is left out.
pub fn shapes(report: &Report) -> (Vec<Shape>, LeftOut) {
    let mut shapes = all_shapes(report);
    shapes.sort_by_key(|shape| Reverse(shape.working_peak.1));
    let left_out = LeftOut {
        calls: report
            .operators
            .iter()
            .map(|operator| operator.calls.saturating_sub(operator.spans.len()))
            .sum(),
        shapes: shapes.len().saturating_sub(SHAPES_MAX),
    };
    shapes.truncate(SHAPES_MAX);
    (shapes.into_iter().map(shortened).collect(), left_out)
}

/// With texts that are no longer than the page has room for.
fn shortened(shape: Shape) -> Shape {
    let short = |text: &str| clipped(text, NAME_MAX).into_owned();
    Shape {
        operator: short(&shape.operator),
        inputs: short(&shape.inputs),
        place: shape.place.as_deref().map(short),
        ..shape
    }
}

/// The longest spans.
pub fn lanes(report: &Report) -> Lanes {
    let mut spans: Vec<(u32, &Span)> = Vec::new();
    for (number, operator) in (0..).zip(&report.operators) {
        spans.extend(operator.spans.iter().map(|span| (number, span)));
    }
    spans.sort_by(|(_, a), (_, b)| b.seconds.unwrap_or(0.0).total_cmp(&a.seconds.unwrap_or(0.0)));
    let calls: usize = report.operators.iter().map(|operator| operator.calls).sum();
    spans.truncate(SPANS_MAX);
    spans.sort_by(|(_, a), (_, b)| a.start_seconds.total_cmp(&b.start_seconds).then(a.span.cmp(&b.span)));
    let micros = |seconds: f64| (seconds * 1e6).max(0.0) as u64;
    let mut depths: HashMap<u32, u32> = HashMap::new();
    let mut lanes = Lanes { left_out: calls.saturating_sub(spans.len()), ..Lanes::default() };
    let mut places: HashMap<u32, u32> = HashMap::new();
    for (number, span) in spans {
        let operator = *places.entry(number).or_insert_with(|| {
            lanes.operators.push(clipped(&report.operators[number as usize].name, NAME_MAX).into());
            lanes.operators.len() as u32 - 1
        });
        let depth = span.parent.and_then(|parent| depths.get(&parent)).map_or(0, |depth| depth + 1);
        depths.insert(span.span, depth);
        lanes.operator.push(operator);
        lanes.process.push(span.process);
        lanes.depth.push(depth);
        lanes.start.push(micros(span.start_seconds));
        lanes.length.push(micros(span.seconds.unwrap_or(report.seconds - span.start_seconds)));
        lanes.working_peak.push(span.working_peak_bytes);
    }
    lanes
}
