//! Columns of JSON. Equal texts of a batch are one value, and what the values take is counted.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow_array::StringArray;
use arrow_array::builder::StringBuilder;
use arrow_schema::ArrowError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::batch::Columns;
use crate::error::Result;
use crate::read::limits;

/// A value of a column of JSON.
pub(crate) trait JsonValue: DeserializeOwned + Default + Clone {
    /// About how many bytes it takes.
    fn bytes(&self) -> usize;
}

/// What the values of JSON of a batch take.
#[derive(Default)]
pub(crate) struct JsonBytes(Cell<u64>);

impl JsonBytes {
    /// Those that were read.
    pub(super) fn taken(&self) -> u64 {
        self.0.get()
    }

    /// Adds one, and returns the sum.
    pub(super) fn add(&self, bytes: u64) -> u64 {
        self.0.set(self.0.get().saturating_add(bytes));
        self.0.get()
    }
}

/// A column of JSON texts.
pub(crate) struct JsonColumn<'a, T> {
    columns: Columns<'a>,
    name: &'static str,
    /// None if the column was not requested: its values are empty ones.
    texts: Option<&'a StringArray>,
    empty: T,
    known: RefCell<HashMap<&'a str, T>>,
}

impl<'a, T: JsonValue> JsonColumn<'a, T> {
    pub(super) fn new(columns: Columns<'a>, name: &'static str, texts: Option<&'a StringArray>) -> Self {
        JsonColumn { columns, name, texts, empty: T::default(), known: RefCell::default() }
    }

    /// The value in row `row`.
    pub(crate) fn value(&self, row: usize) -> Result<T> {
        let Some(texts) = self.texts else { return Ok(self.empty.clone()) };
        let text = texts.value(row);
        if let Some(value) = self.known.borrow().get(text) {
            return Ok(value.clone());
        }
        let path = self.columns.path();
        limits::at_most(path, "the bytes that its JSON may take", bound(text), limits::BATCH_JSON_BYTES)?;
        let value: T = serde_json::from_str(text).map_err(|error| {
            self.columns.error(self.name, format!("is not the JSON it should be: {error}"))
        })?;
        self.columns.take_json(value.bytes() as u64)?;
        self.known.borrow_mut().insert(text, value.clone());
        Ok(value)
    }
}

/// The texts of some values; one that is shared is written once.
pub(crate) fn json_texts<'a, T: Serialize + ?Sized + 'a>(
    values: impl Iterator<Item = &'a Arc<T>>,
) -> Result<StringArray, ArrowError> {
    let mut texts = StringBuilder::new();
    let mut known = HashMap::new();
    for value in values {
        let text = match known.entry(Arc::as_ptr(value).cast::<()>()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let text = serde_json::to_string(&**value);
                new.insert(text.map_err(|error| ArrowError::ExternalError(Box::new(error)))?)
            }
        };
        texts.append_value(text);
    }
    Ok(texts.finish())
}

/// Most bytes that a text takes as a value while it is read: each value that JSON has follows one of
/// four marks, and a list may have room for as many again.
fn bound(text: &str) -> u64 {
    let mark = |byte: u8| match byte {
        b',' | b'[' => 2 * size_of::<Value>(),
        b'{' => MAP_BYTES,
        b':' => MAP_BYTES / 5,
        _ => 0,
    };
    (text.len() + text.bytes().map(mark).sum::<usize>()) as u64
}

/// An object with one entry has room for eleven.
const MAP_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 32;

/// What the entries of an object take.
pub(crate) fn entries(map: &Map<String, Value>) -> usize {
    let nodes = map.len().div_ceil(6) * MAP_BYTES;
    nodes + map.iter().map(|(name, value)| name.len() + beyond(value)).sum::<usize>()
}

/// What a value takes beyond its own size. (A reader of JSON nests 128 deep.)
fn beyond(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => {
            values.capacity() * size_of::<Value>() + values.iter().map(beyond).sum::<usize>()
        }
        Value::Object(map) => entries(map),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_takes_is_bounded_before_it_is_read() {
        let long = format!("{{\"a\":[{}0]}}", "0,".repeat(1000));
        let entry = |number: u32| format!("\"a{number}\":0,");
        let wide = format!("{{{}\"b\":0}}", (0..1000).map(entry).collect::<String>());
        for text in ["{}", r#"{"a":{"b":{"c":1}}}"#, r#"{"a":[{"b":0},{"b":0}],"c":"d"}"#, &long, &wide] {
            let read: Map<String, Value> = serde_json::from_str(text).unwrap();
            assert!(entries(&read) as u64 <= bound(text), "{text}");
        }
        assert!(entries(&serde_json::from_str(&long).unwrap()) > 1000 * size_of::<Value>());
    }
}
