//! What a column is, and how rows become columns and columns rows.
//!
//! The files of `rows/` declare every column, with the macros of `declare.rs`.

mod batch;
pub(crate) mod declare;
mod field;
mod json;
mod labels;
mod record;

use std::fmt;

use arrow_schema::DataType;

pub(crate) use batch::Columns;
pub(crate) use declare::{extract, group, json, labels, table};
pub(crate) use field::{Declared, Field};
#[cfg(test)]
pub(crate) use field::{any_value, text};
pub(crate) use json::{JsonBytes, JsonColumn, JsonValue, entries, json_texts};
pub use labels::UnknownLabel;
pub(crate) use labels::{Label, decode_labels, encode_labels};
pub(crate) use record::{Record, Row};

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub data_type: ColumnType,
    /// What a missing value means; `None` if every row has a value.
    pub null: Option<&'static str>,
    /// What a value means, in Markdown.
    pub meaning: &'static str,
}

impl Column {
    /// The unit of its values, which its name says; `None` for counts, ids and text.
    pub fn unit(&self) -> Option<Unit> {
        self.name.split('_').find_map(|word| match word {
            "ns" => Some(Unit::Nanoseconds),
            "bytes" => Some(Unit::Bytes),
            "cycles" => Some(Unit::Cycles),
            _ => None,
        })
    }
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// Unsigned, 32 bits.
    UInt32,
    /// Unsigned, 64 bits.
    UInt64,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// UTF-8.
    Text,
    /// Text of a closed set, stored as a dictionary.
    Label,
    /// Text that holds JSON.
    Json,
}

impl ColumnType {
    /// The Arrow type.
    pub fn arrow(self) -> DataType {
        match self {
            ColumnType::UInt32 => DataType::UInt32,
            ColumnType::UInt64 => DataType::UInt64,
            ColumnType::Int32 => DataType::Int32,
            ColumnType::Int64 => DataType::Int64,
            ColumnType::Text | ColumnType::Json => DataType::Utf8,
            ColumnType::Label => DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8)),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnType::UInt32 => "uint32",
            ColumnType::UInt64 => "uint64",
            ColumnType::Int32 => "int32",
            ColumnType::Int64 => "int64",
            ColumnType::Text => "text",
            ColumnType::Label => "text, dictionary",
            ColumnType::Json => "JSON",
        })
    }
}

/// The unit of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// 10⁻⁹ s: since the trace started, or of a length of time.
    Nanoseconds,
    /// 8 bits.
    Bytes,
    /// Of the processor's clock.
    Cycles,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "bytes",
            Unit::Cycles => "cycles",
        })
    }
}
