//! Columns of a closed set of texts, stored as dictionaries.

use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{ArrayRef, DictionaryArray, StringArray, UInt8Array};
use arrow_schema::ArrowError;

use super::Columns;
use crate::error::Result;

/// A text that is none of the values its type knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a known value")]
pub struct UnknownLabel(pub String);

/// A closed set of values (`labels!`); a value's key in the dictionary is its place in `ALL` and
/// `TEXTS`.
pub(crate) trait Label: Copy + 'static {
    const ALL: &'static [Self];
    const TEXTS: &'static [&'static str];

    fn key(self) -> u8;

    fn parse(text: &str) -> Result<Self, UnknownLabel> {
        let found = Self::TEXTS.iter().position(|known| *known == text);
        found.map(|key| Self::ALL[key]).ok_or_else(|| UnknownLabel(text.to_owned()))
    }
}

/// The values of a column, by row.
pub(crate) fn decode_labels<L: Label>(columns: &Columns, name: &'static str) -> Result<Vec<L>> {
    let (dictionary, texts) = columns.dictionary(name)?;
    let known: Vec<Result<L, _>> = texts.iter().flatten().map(L::parse).collect();
    let keys = dictionary.keys().values().iter();
    keys.map(|&key| match known.get(usize::from(key)) {
        Some(Ok(label)) => Ok(*label),
        Some(Err(unknown)) => Err(columns.error(name, format!("is damaged: {unknown}"))),
        None => Err(columns.error(name, "points past its dictionary".to_owned())),
    })
    .collect()
}

pub(crate) fn encode_labels<'a, L: Label>(
    values: impl Iterator<Item = &'a L>,
) -> Result<ArrayRef, ArrowError> {
    let keys = UInt8Array::from_iter_values(values.map(|label| label.key()));
    let texts = StringArray::from_iter_values(L::TEXTS);
    Ok(Arc::new(DictionaryArray::<UInt8Type>::try_new(keys, Arc::new(texts))?))
}
