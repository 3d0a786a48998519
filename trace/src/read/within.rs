//! Rows by the value of an unsigned column.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, BooleanArray, PrimitiveArray, RecordBatch};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowPredicate, ArrowPredicateFn};
use parquet::file::metadata::RowGroupMetaData;
use parquet::schema::types::SchemaDescriptor;

use crate::read::pruning;

/// Rows of which a column has one of some values.
#[derive(Debug, Clone)]
pub(crate) struct Within {
    pub(crate) column: &'static str,
    pub(crate) values: Values,
}

/// Some numbers.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    Range(RangeInclusive<u64>),
    Set(Arc<BTreeSet<u64>>),
}

impl Within {
    /// False only if the statistics of a row group exclude that it has such rows.
    pub(crate) fn may_be_in(&self, group: &RowGroupMetaData) -> bool {
        let found = pruning::numbers(group, self.column);
        found.is_some_and(|(first, last)| match &self.values {
            Values::Range(range) => first <= *range.end() && *range.start() <= last,
            Values::Set(numbers) => first <= last && numbers.range(first..=last).next().is_some(),
        })
    }

    pub(super) fn predicate(&self, schema: &SchemaDescriptor) -> Box<dyn ArrowPredicate> {
        let values = self.values.clone();
        let columns = ProjectionMask::columns(schema, [self.column]);
        Box::new(ArrowPredicateFn::new(columns, move |batch| {
            Ok(match &values {
                Values::Range(range) => rows_of(&batch, |number| range.contains(&number)),
                Values::Set(numbers) => rows_of(&batch, |number| numbers.contains(&number)),
            })
        }))
    }
}

/// Which rows of the only column have a value that is `wanted`. Rows without one are among them, and
/// all where it is no column of unsigned numbers, or is not there: decoding them gives the error.
fn rows_of(batch: &RecordBatch, wanted: impl Fn(u64) -> bool) -> BooleanArray {
    fn test<T: ArrowPrimitiveType<Native: Into<u64>>>(
        column: &PrimitiveArray<T>,
        wanted: impl Fn(u64) -> bool,
    ) -> BooleanArray {
        let values = column.values().iter().enumerate();
        values.map(|(row, &value)| Some(column.is_null(row) || wanted(value.into()))).collect()
    }
    let column = batch.columns().first();
    let narrow = column.and_then(|column| column.as_primitive_opt::<UInt32Type>());
    let wide = column.and_then(|column| column.as_primitive_opt::<UInt64Type>());
    match (narrow, wide) {
        (Some(column), _) => test(column, wanted),
        (_, Some(column)) => test(column, wanted),
        _ => vec![true; batch.num_rows()].into(),
    }
}
