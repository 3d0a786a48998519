//! Structs that are read from rows of a table.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use super::{Column, Columns};
use crate::error::Result;
use crate::table::Table;

/// Some columns of a table's rows (`extract!`), or all of them ([`Row`]).
pub(crate) trait Record: Sized {
    /// The table.
    const TABLE: Table;

    /// Names of the columns that it is read from.
    fn names() -> Vec<&'static str>;

    /// Reads the rows of a batch whose number is `wanted`, in order.
    fn read_each(columns: &Columns, wanted: impl Fn(usize) -> bool, each: impl FnMut(Self)) -> Result<()>;
}

/// A row with all columns of its table (`table!`).
pub(crate) trait Row: Record {
    /// The columns, in order.
    fn columns() -> Vec<Column>;

    /// Rows as a batch of the table's schema.
    fn encode(rows: &[Self]) -> Result<RecordBatch, ArrowError>;
}
