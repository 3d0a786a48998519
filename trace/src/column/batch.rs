//! The columns of a record batch by name; one that is not as declared is an error, never a guess.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_schema::DataType;

use super::ColumnType;
use super::json::{JsonBytes, JsonColumn, JsonValue};
use crate::error::{Error, Result};
use crate::read::limits;
use crate::table::Table;

/// The columns of one batch, with what an error must name.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    path: &'a Path,
    table: Table,
    batch: &'a RecordBatch,
    requested: &'a [&'a str],
    json: &'a JsonBytes,
}

impl<'a> Columns<'a> {
    /// The columns of a batch of which `requested` were read; `json` counts the values of its JSON.
    pub(crate) fn new(
        path: &'a Path,
        table: Table,
        batch: &'a RecordBatch,
        requested: &'a [&'a str],
        json: &'a JsonBytes,
    ) -> Self {
        Columns { path, table, batch, requested, json }
    }

    pub(crate) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    pub(crate) fn path(&self) -> &'a Path {
        self.path
    }

    /// Counts a value of JSON.
    pub(super) fn take_json(&self, bytes: u64) -> Result<()> {
        let taken = self.json.add(bytes);
        limits::at_most(self.path, "the bytes that its JSON takes", taken, limits::BATCH_JSON_BYTES)
    }

    /// Most bytes that the texts of so many of its rows take, and the values of JSON that were read.
    pub(crate) fn text_of(&self, rows: usize) -> u64 {
        let columns = self.table.columns().into_iter();
        let texts = columns.filter(|column| column.data_type != ColumnType::Json).filter_map(|column| {
            let texts = self.batch.column_by_name(column.name)?.as_string_opt::<i32>()?;
            Some(texts.value_data().len().min(longest(texts).saturating_mul(rows)) as u64)
        });
        texts.sum::<u64>() + self.json.taken()
    }

    /// A column that may hold nulls.
    pub(crate) fn nullable<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<&'a PrimitiveArray<T>> {
        let array = self.column(column)?;
        let found = array.as_primitive_opt::<T>();
        found.ok_or_else(|| self.wrong_type(column, array, &T::DATA_TYPE))
    }

    /// A column without nulls.
    pub(crate) fn required<T: ArrowPrimitiveType>(&self, column: &'static str) -> Result<&'a [T::Native]> {
        let array = self.nullable::<T>(column)?;
        self.no_nulls(column, array)?;
        Ok(array.values())
    }

    /// A column of text that may hold nulls.
    pub(crate) fn nullable_text(&self, column: &'static str) -> Result<&'a StringArray> {
        let array = self.column(column)?;
        let texts = array.as_string_opt::<i32>();
        let texts = texts.ok_or_else(|| self.wrong_type(column, array, &DataType::Utf8))?;
        limits::at_most(self.path, "the bytes of a text", longest(texts) as u64, limits::TEXT_BYTES)?;
        Ok(texts)
    }

    /// A column of text without nulls.
    pub(crate) fn text(&self, column: &'static str) -> Result<&'a StringArray> {
        let texts = self.nullable_text(column)?;
        self.no_nulls(column, texts)?;
        Ok(texts)
    }

    /// A dictionary-encoded column without nulls, and the texts of its dictionary.
    pub(crate) fn dictionary(
        &self,
        column: &'static str,
    ) -> Result<(&'a DictionaryArray<UInt8Type>, &'a StringArray)> {
        let array = self.column(column)?;
        let wrong = || self.wrong_type(column, array, &ColumnType::Label.arrow());
        let dictionary = array.as_dictionary_opt::<UInt8Type>().ok_or_else(wrong)?;
        let texts = dictionary.values().as_string_opt::<i32>().ok_or_else(wrong)?;
        self.no_nulls(column, dictionary.keys())?;
        self.no_nulls(column, texts)?;
        Ok((dictionary, texts))
    }

    /// A column of JSON texts; if it was not requested, its values are the empty ones.
    pub(crate) fn json<T: JsonValue>(&self, column: &'static str) -> Result<JsonColumn<'a, T>> {
        let texts = self.requested.contains(&column).then(|| self.text(column)).transpose()?;
        Ok(JsonColumn::new(*self, column, texts))
    }

    pub(crate) fn error(&self, column: &'static str, reason: String) -> Error {
        Error::Column {
            path: self.path.to_owned(),
            table: self.table.name(),
            column: column.to_owned(),
            reason,
        }
    }

    fn column(&self, column: &'static str) -> Result<&'a ArrayRef> {
        let found = self.batch.column_by_name(column);
        found.ok_or_else(|| self.error(column, "is missing".to_owned()))
    }

    fn no_nulls(&self, column: &'static str, array: &dyn Array) -> Result<()> {
        match array.null_count() {
            0 => Ok(()),
            nulls => Err(self.error(column, format!("has {nulls} nulls and must have none"))),
        }
    }

    fn wrong_type(&self, column: &'static str, found: &ArrayRef, expected: &DataType) -> Error {
        self.error(column, format!("has type {} instead of {expected}", found.data_type()))
    }
}

fn longest(texts: &StringArray) -> usize {
    texts.value_offsets().windows(2).map(|ends| (ends[1] - ends[0]) as usize).max().unwrap_or(0)
}
