//! Shapes and element types of what goes from step to step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::Error;

/// NumPy's arrays have no more axes.
const MOST_AXES: usize = 64;

/// An array that a step takes in or gives out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// Lengths of its axes, elements.
    pub shape: Vec<u64>,
    /// NumPy dtype with its byte order, e.g. `<f4`.
    pub dtype: String,
}

impl Array {
    /// The same with its dtype as NumPy writes it: `f4` means the native byte order.
    ///
    /// # Errors
    /// [`Error::Graph`]: a dtype without a size, or more axes than arrays have.
    pub(super) fn checked(self) -> Result<Array, Error> {
        if self.shape.len() > MOST_AXES {
            let axes = self.shape.len();
            return Err(Error::Graph(format!("a shape has {axes} axes: arrays have {MOST_AXES} at most")));
        }
        let dtype = normal(&self.dtype).ok_or_else(|| {
            let written = &self.dtype;
            Error::Graph(format!(
                "{written:?} is no element type of a size; write it as NumPy does: <f4, <f8, <i2, |u1"
            ))
        })?;
        Ok(Array { dtype, ..self })
    }

    /// Bytes of its elements; saturates.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.item_bytes())
    }

    pub(super) fn item_bytes(&self) -> u64 {
        item_bytes(&self.dtype).unwrap_or(1)
    }

    pub(super) fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |product, &n| product.saturating_mul(n))
    }
}

/// As much as a graph says of an array; the rest is as in another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    shape: Option<Vec<u64>>,
    dtype: Option<String>,
}

impl Output {
    /// `None`: the other is needed and not there.
    pub(super) fn like(&self, other: Option<&Array>) -> Option<Array> {
        let shape = self.shape.clone().or_else(|| other.map(|other| other.shape.clone()))?;
        let dtype = self.dtype.clone().or_else(|| other.map(|other| other.dtype.clone()))?;
        Some(Array { shape, dtype })
    }

    pub(super) fn checked(self) -> Result<Output, Error> {
        let Output { shape, dtype } = self;
        let Some(dtype) = dtype else { return Ok(Output { shape, dtype }) };
        let Array { dtype, .. } = Array { shape: Vec::new(), dtype }.checked()?;
        Ok(Output { shape, dtype: Some(dtype) })
    }
}

impl From<Array> for Output {
    fn from(Array { shape, dtype }: Array) -> Output {
        Output { shape: Some(shape), dtype: Some(dtype) }
    }
}

fn normal(dtype: &str) -> Option<String> {
    let size = item_bytes(dtype)?;
    let ordered = dtype.starts_with(['<', '>', '|']);
    let native = if cfg!(target_endian = "little") { '<' } else { '>' };
    let plain = dtype.trim_start_matches('=');
    Some(match ordered {
        true => plain.to_owned(),
        false if size == 1 => format!("|{plain}"),
        false => format!("{native}{plain}"),
    })
}

/// Bytes of one element: the digits, times 4 for texts; dates have a unit behind them.
fn item_bytes(dtype: &str) -> Option<u64> {
    let plain = dtype.trim_start_matches(['<', '>', '|', '=']);
    let kind = plain.chars().next().filter(char::is_ascii_alphabetic)?;
    let digits: String = plain[1..].chars().take_while(char::is_ascii_digit).collect();
    let size: u64 = digits.parse().ok().filter(|&size| size > 0)?;
    size.checked_mul(if kind == 'U' { 4 } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_are_read_as_numpy_writes_them() {
        let array = |dtype: &str| Array { shape: vec![3, 5], dtype: dtype.into() }.checked();
        for (written, kept, bytes) in [
            ("f4", "<f4", 60),
            (">i2", ">i2", 30),
            ("u1", "|u1", 15),
            ("|b1", "|b1", 15),
            ("M8[ns]", "<M8[ns]", 120),
        ] {
            let array = array(written).unwrap();
            assert_eq!((array.dtype.as_str(), array.bytes()), (kept, bytes), "{written}");
        }
        for bad in ["", "f", "4", "<", "f0", "é4"] {
            assert!(array(bad).is_err(), "{bad}");
        }
    }
}
