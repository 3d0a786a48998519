//! The first rows of a table as Python's values.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use serde_json::Value;

/// Rows of a batch, `most` of them at most, one value for each column.
pub(crate) fn rows(batch: &RecordBatch, most: usize) -> Vec<Vec<Value>> {
    let row = |row| batch.columns().iter().map(|column| value(column, row)).collect();
    (0..batch.num_rows().min(most)).map(row).collect()
}

fn value(column: &dyn Array, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        DataType::Dictionary(..) => {
            let labels = column.as_dictionary::<UInt8Type>();
            value(labels.values(), labels.keys().value(row).into())
        }
        other => unreachable!("no column of a trace is {other}"),
    }
}
