//! Operators and their spans.

use std::sync::Arc;

use memtrace_trace::rows::ArrayInfo;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::process::ResidentParts;

/// An operator with its spans.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Operator {
    /// `module:function`, or the name that the program gave.
    pub name: String,
    /// Spans in the trace.
    pub calls: usize,
    /// Calls with one shape and other memory: it depends on data.
    pub data_dependent: Vec<DataDependent>,
    /// The 1,000 with the largest working peaks, fewer where all operators together would have more
    /// than 20,000, or all (`--all-spans`).
    pub spans: Vec<Span>,
}

/// Calls with the same inputs and parameters that needed different memory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DataDependent {
    /// Inputs of the first of them.
    pub inputs: Arc<[ArrayInfo]>,
    /// Its parameters.
    pub params: Arc<Map<String, Value>>,
    /// Calls.
    pub calls: usize,
    /// Their working peaks.
    pub working_peak_bytes: MinMax,
}

/// The smallest and the largest.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MinMax {
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

/// One execution of an operator.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Span {
    /// Id in the table `spans`.
    pub span: u32,
    /// The span it ran in.
    pub parent: Option<u32>,
    /// Index of the process.
    pub process: u32,
    /// n-th span of its operator in its process, from 0.
    pub call: u32,
    /// Array arguments.
    pub inputs: Arc<[ArrayInfo]>,
    /// Arrays in the result.
    pub outputs: Arc<[ArrayInfo]>,
    /// Scalar parameters, and versions of libraries.
    pub params: Arc<Map<String, Value>>,
    /// Bytes of the inputs.
    pub input_bytes: u64,
    /// Peak of the bytes allocated in the span and not yet released.
    pub working_peak_bytes: u64,
    /// The same, less blocks from before the span that it released.
    pub net_peak_bytes: u64,
    /// Bytes that the first call in a process allocates and keeps, the output left out.
    pub one_time_bytes: u64,
    /// Bytes of the outputs.
    pub output_bytes: u64,
    /// Peak resident size of the process during the span.
    pub resident_peak_bytes: Option<u64>,
    /// Resident size when it began.
    pub resident_start_bytes: Option<u64>,
    /// How much larger the resident size became.
    pub resident_growth_bytes: Option<u64>,
    /// What resident memory was made of at its peak.
    pub resident_at_peak: Option<ResidentParts>,
    /// Lower bound of the working peak without garbage; null if garbage was not tracked
    /// (`--gc`).
    pub gc_independent_bytes: Option<u64>,
    /// Its upper bound.
    pub gc_independent_upper_bytes: Option<u64>,
    /// Known garbage in the working peak.
    pub garbage_at_peak_bytes: Option<u64>,
    /// The working peak on devices.
    pub device_peak_bytes: Option<u64>,
    /// Largest driver bytes of the process during the span.
    pub device_driver_peak_bytes: Option<u64>,
    /// Blocks allocated.
    pub allocations: u64,
    /// Id of the call stack whose block set the working peak.
    pub peak_site: Option<u64>,
    /// Its place in the program.
    pub peak_place: Option<String>,
    /// Blocks allocated and released in the span.
    pub temporaries: u64,
    /// Sum of their sizes.
    pub temporary_bytes: u64,
    /// Of the working peak, blocks released before the span ended.
    pub temporary_peak_bytes: Option<u64>,
    /// Bytes allocated in the span and live at its end.
    pub kept_bytes: Option<u64>,
    /// Blocks from before the span that its outputs keep alive.
    pub pinned_bytes: Option<u64>,
    /// When it began.
    pub start_seconds: f64,
    /// How long it took; null if it was not seen to end.
    pub seconds: Option<f64>,
}
