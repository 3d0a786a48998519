//! Operators by the shapes of their inputs, out of the report.

use std::collections::BTreeMap;

use memtrace_trace::rows::ArrayInfo;
use serde::Serialize;

use crate::report::document::{Operator, Report, Span};

/// Peaks of calls that are kept.
const PEAKS_MAX: usize = 60;
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
    /// Largest growth of resident memory; null if it was not seen.
    #[serde(skip)]
    pub resident_growth: Option<u64>,
    /// How long its calls took together.
    pub seconds: f64,
    /// When the first began, and the last ended.
    pub time: (f64, f64),
    /// Working peaks of its first calls, in order.
    pub peaks: Vec<u64>,
    /// Where the largest call had its peak.
    pub place: Option<String>,
    /// The call stack of that place.
    #[serde(skip)]
    pub site: Option<u64>,
    /// Lengths of the first input.
    #[serde(skip)]
    pub lengths: Vec<u64>,
}

/// Operators and shapes of a report, by name and by text of the shape.
pub fn shapes(report: &Report) -> Vec<Shape> {
    report.operators.iter().flat_map(of_operator).collect()
}

fn of_operator(operator: &Operator) -> Vec<Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    for span in &operator.spans {
        let inputs = described(&span.inputs);
        let new = || Shape {
            operator: operator.name.clone(),
            inputs: inputs.clone(),
            calls_of_operator: operator.calls,
            data_dependent: operator.data_dependent.iter().any(|group| described(&group.inputs) == inputs),
            working_peak: (u64::MAX, 0),
            time: (span.start_seconds, 0.0),
            lengths: span.inputs.first().map(|array| array.shape.clone()).unwrap_or_default(),
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
            self.place.clone_from(&span.peak_place);
            self.site = span.peak_site;
        }
        self.calls += 1;
        self.working_peak = (self.working_peak.0.min(peak), self.working_peak.1.max(peak));
        self.net_peak = self.net_peak.max(span.net_peak_bytes);
        self.one_time = self.one_time.max(span.one_time_bytes);
        self.temporary_peak = self.temporary_peak.max(span.temporary_peak_bytes.unwrap_or(0));
        self.device_peak = self.device_peak.max(span.device_peak_bytes);
        self.resident_growth = self.resident_growth.max(span.resident_growth_bytes);
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
    text
}
