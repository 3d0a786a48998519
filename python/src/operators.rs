//! The table of operators, which no file of a trace has: it is summed up from the spans.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{Field, Schema};
use memtrace_analysis::report::operators::{Operator, operators};
use memtrace_trace::Trace;
use pyo3::prelude::*;

use crate::convert::refused;

/// One row for each operator, that with the largest working peak first.
pub(crate) fn batch(trace: &Trace) -> PyResult<RecordBatch> {
    let mut operators = operators(trace, usize::MAX).map_err(refused)?;
    operators.sort_by_key(|operator| std::cmp::Reverse(operator.largest.working_peak_bytes));
    let number = |of: &dyn Fn(&Operator) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(operators.iter().map(of)))
    };
    let inputs: Vec<String> = operators
        .iter()
        .map(|operator| serde_json::to_string(&operator.largest.inputs))
        .collect::<Result<_, _>>()
        .map_err(refused)?;
    let names: Vec<&str> = operators.iter().map(|operator| operator.name.as_str()).collect();
    let resident: UInt64Array =
        operators.iter().map(|operator| operator.largest.resident_peak_bytes).collect();
    let device: UInt64Array = operators.iter().map(|operator| operator.largest.device_peak_bytes).collect();
    let columns: [(&str, ArrayRef); 12] = [
        ("operator", Arc::new(StringArray::from(names))),
        ("calls", number(&|operator| operator.calls)),
        ("working_peak_bytes", number(&|operator| operator.largest.working_peak_bytes)),
        ("net_peak_bytes", number(&|operator| operator.largest.net_peak_bytes)),
        ("one_time_bytes", number(&|operator| operator.one_time_bytes)),
        ("resident_peak_bytes", Arc::new(resident)),
        ("device_peak_bytes", Arc::new(device)),
        ("inputs", Arc::new(StringArray::from(inputs))),
        ("input_bytes", number(&|operator| operator.largest.input_bytes)),
        ("output_bytes", number(&|operator| operator.largest.output_bytes)),
        ("allocations", number(&|operator| operator.largest.allocations)),
        ("total_ns", number(&|operator| operator.total_ns)),
    ];
    let field = |(name, array): &(&str, ArrayRef)| {
        let nullable = matches!(*name, "resident_peak_bytes" | "device_peak_bytes");
        Field::new(*name, array.data_type().clone(), nullable)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.map(|(_, array)| array).into()).map_err(refused)
}
