//! Text, and numbers as objects of the language: what they take grows with the data.

use super::machine::Machine;
use super::value::{Array, Value};

/// Bytes of a number of CPython, and of the place in a list that refers to it.
const OBJECT: u64 = 32 + 8;
/// Bytes of a list of CPython without its places.
const LIST: u64 = 56;
/// Most numbers of an array that are listed one by one.
const FEW: u64 = 64;
/// Longest text, and longest list of texts, of which nothing is counted.
const SHORT: usize = 4096;

impl Machine<'_> {
    /// `array.tolist()`: an object for each element, a list for each row.
    pub(super) fn objects(&mut self, array: &Array, line: u32) -> Value {
        let number = || Value::Number { value: None, float: matches!(array.dtype.kind, 'f' | 'c') };
        match array.shape.as_slice() {
            [] => return number(),
            [few] if *few <= FEW => return Value::list((0..*few).map(|_| number()).collect()),
            _ => {}
        }
        let elements = array.elements();
        let rows = elements / array.shape.last().copied().unwrap_or(1).max(1);
        let bytes = elements.saturating_mul(OBJECT).saturating_add(rows.saturating_mul(LIST + 8));
        let place = self.place("tolist", line);
        Value::Unknown(vec![self.meter.hold(bytes, &place)])
    }

    /// Bytes that are copied out of an array, or filled with zeros.
    pub(super) fn bytes(&mut self, of: Option<&Value>, line: u32) -> Value {
        let bytes = match of {
            Some(Value::Array(array)) => Some(array.bytes()),
            Some(Value::Text(text)) => Some(text.len() as u64),
            Some(other) => other.length(),
            None => Some(0),
        };
        let Some(bytes) = bytes else {
            self.note("bytes", line);
            return Value::Unknown(Vec::new());
        };
        let place = self.place("bytes", line);
        Value::Unknown(vec![self.meter.hold(bytes, &place)])
    }

    /// A method of text that is known. What comes out is as long as what goes in: named where that
    /// may be long.
    pub(super) fn of_text(&mut self, text: &str, name: &str, args: &[Value], line: u32) -> Value {
        match (name, args) {
            ("lower", _) => Value::Text(text.to_lowercase().into()),
            ("upper", _) => Value::Text(text.to_uppercase().into()),
            ("startswith", [Value::Text(part), ..]) => Value::Flag(Some(text.starts_with(&**part))),
            ("endswith", [Value::Text(part), ..]) => Value::Flag(Some(text.ends_with(&**part))),
            ("startswith" | "endswith", _) => Value::Flag(None),
            _ => {
                if text.len() > SHORT || !args.iter().all(is_short) {
                    self.note(&format!("text that {name} makes"), line);
                }
                Value::Unknown(args.iter().flat_map(Value::blocks).collect())
            }
        }
    }
}

/// As text, a value is short whatever the data.
fn is_short(value: &Value) -> bool {
    match value {
        Value::Text(text) => text.len() <= SHORT,
        Value::Sequence(items) => {
            let items = items.borrow();
            items.len() <= FEW as usize
                && items.iter().all(|item| !matches!(item, Value::Sequence(_)) && is_short(item))
        }
        Value::Mapping(_) => false,
        Value::Unknown(blocks) => blocks.is_empty(), // named where it comes from
        // What NumPy writes of an array is short.
        _ => true,
    }
}
