//! Operators by the shapes of their inputs, and their spans over time, out of the report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use memtrace_trace::rows::ArrayInfo;
use serde::Serialize;

use super::{NAME_MAX, clipped};
use crate::report::document::{Operator, Report, Span};

/// Operators and shapes that the page has.
const SHAPES_MAX: usize = 400;
/// Peaks of calls that are drawn.
const PEAKS_MAX: usize = 60;
/// Spans that are drawn over time.
const SPANS_MAX: usize = 3000;
/// Arrays that are named of one call.
const ARRAYS_MAX: usize = 4;

/// The calls of an operator with inputs of one shape.
#[derive(Debug, Default, Serialize)]
pub struct Shape {
    /// The operator.
    pub operator: String,
    /// Shapes and types of its inputs.
    pub inputs: String,
    /// Calls that the report lists.
    pub calls: usize,
    /// All calls of the operator, of whatever shape.
    pub calls_of_operator: usize,
    /// Calls with the same inputs needed different memory: it depends on data.
    pub data_dependent: bool,
    /// Smallest and largest working peak.
    pub working_peak: (u64, u64),
    /// Largest net peak.
    pub net_peak: u64,
    /// Largest one-time bytes.
    pub one_time: u64,
    /// Largest part of a working peak that was gone when the call ended.
    pub temporary_peak: u64,
    /// Bytes of the outputs of the largest call.
    pub output: u64,
    /// Outputs that are views of inputs.
    pub views: usize,
    /// Largest device peak; null if there was none.
    pub device_peak: Option<u64>,
    /// How long its calls took together.
    pub seconds: f64,
    /// When the first began, and the last ended.
    pub time: (f64, f64),
    /// Working peaks of its first calls, in order.
    pub peaks: Vec<u64>,
    /// Where the largest call had its peak.
    pub place: Option<String>,
}

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
    let mut shapes: Vec<Shape> = report.operators.iter().flat_map(of_operator).collect();
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
    (shapes, left_out)
}

fn of_operator(operator: &Operator) -> Vec<Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    for span in &operator.spans {
        let inputs = described(&span.inputs);
        let new = || Shape {
            operator: clipped(&operator.name, NAME_MAX).into(),
            inputs: inputs.clone(),
            calls_of_operator: operator.calls,
            data_dependent: operator.data_dependent.iter().any(|group| described(&group.inputs) == inputs),
            working_peak: (u64::MAX, 0),
            time: (span.start_seconds, 0.0),
            ..Shape::default()
        };
        shapes.entry(inputs.clone()).or_insert_with(new).add(span);
    }
    shapes.into_values().collect()
}

impl Shape {
    fn add(&mut self, span: &Span) {
        let peak = span.working_peak_bytes;
        if peak >= self.working_peak.1 {
            self.output = span.output_bytes;
            self.place = span.peak_place.as_deref().map(|place| clipped(place, NAME_MAX).into());
        }
        self.calls += 1;
        self.working_peak = (self.working_peak.0.min(peak), self.working_peak.1.max(peak));
        self.net_peak = self.net_peak.max(span.net_peak_bytes);
        self.one_time = self.one_time.max(span.one_time_bytes);
        self.temporary_peak = self.temporary_peak.max(span.temporary_peak_bytes.unwrap_or(0));
        self.device_peak = self.device_peak.max(span.device_peak_bytes);
        self.views += span.outputs.iter().filter(|array| array.relation == "view").count();
        self.seconds += span.seconds.unwrap_or(0.0);
        self.time.1 = self.time.1.max(span.start_seconds + span.seconds.unwrap_or(0.0));
        if self.peaks.len() < PEAKS_MAX {
            self.peaks.push(peak);
        }
    }
}

/// `100×100×100 <f4, 3 <f8`.
fn described(arrays: &[ArrayInfo]) -> String {
    let one = |array: &ArrayInfo| {
        let lengths: Vec<String> = array.shape.iter().map(u64::to_string).collect();
        format!("{} {}", lengths.join("×"), array.dtype)
    };
    let mut text = arrays.iter().take(ARRAYS_MAX).map(one).collect::<Vec<_>>().join(", ");
    if arrays.len() > ARRAYS_MAX {
        text.push_str(", …");
    }
    clipped(&text, NAME_MAX).into()
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
