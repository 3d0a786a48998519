//! The columns of a record batch by name; one that is not as declared is an error, never a guess.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_schema::DataType;
use serde::de::DeserializeOwned;

use super::ColumnType;
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
}

impl<'a> Columns<'a> {
    /// The columns of a batch of which `requested` were read.
    pub(crate) fn new(
        path: &'a Path,
        table: Table,
        batch: &'a RecordBatch,
        requested: &'a [&'a str],
    ) -> Self {
        Columns { path, table, batch, requested }
    }

    pub(crate) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    pub(crate) fn path(&self) -> &'a Path {
        self.path
    }

    /// Most bytes that the texts of so many of its rows take once they are read.
    pub(crate) fn text_of(&self, rows: usize) -> usize {
        let texts = self.table.columns().into_iter().filter_map(|column| {
            let texts = self.batch.column_by_name(column.name)?.as_string_opt::<i32>()?;
            Some(match column.data_type {
                ColumnType::Json => values_of(texts, rows),
                _ => texts.value_data().len().min(longest(texts).saturating_mul(rows)),
            })
        });
        texts.sum()
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
    pub(crate) fn json<T: Default>(&self, column: &'static str) -> Result<JsonColumn<'a, T>> {
        let texts = self.requested.contains(&column).then(|| self.text(column)).transpose()?;
        Ok(JsonColumn {
            columns: *self,
            column,
            texts,
            empty: T::default(),
            read: Cell::new(0),
            known: RefCell::default(),
        })
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

/// Bytes that a text takes as a value, or half of it. Each value that JSON has follows one of three
/// marks; an object with one entry has room for eleven.
fn value_of(text: &str) -> usize {
    let mark = |byte: u8| match byte {
        b',' | b'[' => 64,
        b'{' => 256,
        _ => 0,
    };
    text.len() + text.bytes().map(mark).sum::<usize>()
}

/// Most bytes that the values of so many rows take: equal texts are one value.
fn values_of(texts: &StringArray, rows: usize) -> usize {
    if rows == 0 {
        return 0;
    }
    let different: HashSet<&str> = texts.iter().flatten().collect();
    let sizes = different.into_iter().map(value_of);
    let (all, largest) = sizes.fold((0, 0), |(all, largest), size| (all + size, size.max(largest)));
    all.min(largest.saturating_mul(rows))
}

/// A column of JSON texts. Equal texts of a batch are one value, which its rows share.
pub(crate) struct JsonColumn<'a, T> {
    columns: Columns<'a>,
    column: &'static str,
    texts: Option<&'a StringArray>,
    empty: T,
    read: Cell<u64>,
    known: RefCell<HashMap<&'a str, T>>,
}

impl<T: DeserializeOwned + Clone> JsonColumn<'_, T> {
    /// The value in row `row`.
    pub(crate) fn value(&self, row: usize) -> Result<T> {
        let Some(texts) = self.texts else { return Ok(self.empty.clone()) };
        let text = texts.value(row);
        if let Some(value) = self.known.borrow().get(text) {
            return Ok(value.clone());
        }
        let read = self.read.get() + value_of(text) as u64;
        limits::at_most(self.columns.path, "the bytes of its JSON", read, limits::BATCH_JSON_BYTES)?;
        self.read.set(read);
        let value: T = serde_json::from_str(text).map_err(|error| {
            self.columns.error(self.column, format!("is not the JSON it should be: {error}"))
        })?;
        self.known.borrow_mut().insert(text, value.clone());
        Ok(value)
    }
}
