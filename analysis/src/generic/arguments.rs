//! A call whose arguments are bound to parameters, and the shapes that come of it.

use std::collections::BTreeMap;

use super::dtype::Dtype;
use super::value::{Array, Layout, MAX_NESTED, Value, too_much, work};

/// What a rule gave.
pub enum Shapes {
    /// One array.
    One(Vec<u64>),
    /// A tuple.
    Several(Vec<Vec<u64>>),
    /// A number.
    Number,
    /// Nothing.
    Nothing,
}

/// A call whose arguments have names.
pub struct Bound {
    /// Arguments by parameter.
    pub named: BTreeMap<String, Value>,
    /// All arrays among them, in order; numbers in lists as arrays.
    pub arrays: Vec<Array>,
    /// The length taken where one is unknown.
    pub longest: u64,
}

impl Bound {
    /// The argument of the first of these parameters that was given.
    pub fn get(&self, names: &[&str]) -> Option<&Value> {
        names.iter().find_map(|name| self.named.get(*name)).filter(|value| !matches!(value, Value::Nothing))
    }

    pub(super) fn length(&self, names: &[&str]) -> Option<u64> {
        self.get(names).and_then(Value::length)
    }

    /// Axes named by `axis`, counted from the front; None: not given.
    pub fn axes(&self, rank: usize) -> Option<Vec<usize>> {
        let axes = self.get(&["axis", "axes"])?.wholes()?;
        Some(axes.into_iter().filter_map(|axis| place(axis, rank)).collect())
    }

    pub(super) fn axis_or(&self, default: i64, rank: usize) -> usize {
        let given = self.axes(rank).and_then(|axes| axes.first().copied());
        given.or_else(|| place(default, rank)).unwrap_or(0)
    }

    /// A list of lengths: a number, a sequence or what is in an array of unknown numbers.
    pub fn lengths(&self, value: &Value) -> Vec<u64> {
        match value.items() {
            Some(items) => items.iter().map(|item| item.length().unwrap_or(self.longest)).collect(),
            None => vec![value.length().unwrap_or(self.longest)],
        }
    }
}

/// An axis counted from the front.
pub fn place(axis: i64, rank: usize) -> Option<usize> {
    let from_front = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(from_front).ok().filter(|&axis| axis < rank)
}

/// Shape of arrays combined element by element.
pub fn broadcast<'a>(shapes: impl Iterator<Item = &'a [u64]>) -> Vec<u64> {
    let mut result: Vec<u64> = Vec::new();
    for shape in shapes {
        let missing = shape.len().saturating_sub(result.len());
        result.splice(0..0, std::iter::repeat_n(1, missing));
        let start = result.len() - shape.len();
        for (length, &other) in result[start..].iter_mut().zip(shape) {
            *length = if *length == 1 { other } else { *length };
        }
    }
    result
}

/// Shape without the axes that a reduction goes over.
pub fn reduced(bound: &Bound, shape: &[u64]) -> Vec<u64> {
    let keep = bound.get(&["keepdims"]).and_then(Value::truth) == Some(true);
    let gone: Vec<usize> = bound.axes(shape.len()).unwrap_or_else(|| (0..shape.len()).collect());
    let length = |(axis, &length): (usize, &u64)| match (gone.contains(&axis), keep) {
        (true, true) => Some(1),
        (true, false) => None,
        _ => Some(length),
    };
    shape.iter().enumerate().filter_map(length).collect()
}

/// Numbers in a list as the array a library makes of them.
pub fn array_of(value: &Value) -> Option<Array> {
    array_in(value, 0)
}

fn array_in(value: &Value, depth: usize) -> Option<Array> {
    work(1);
    let plain = |shape: Vec<u64>, dtype| Array {
        shape,
        dtype,
        layout: Layout::C,
        blocks: value.blocks(),
        class: None,
    };
    match value {
        Value::Array(array) => Some(array.clone()),
        Value::Number { float: true, .. } => Some(plain(Vec::new(), Dtype::DOUBLE)),
        Value::Number { .. } => Some(plain(Vec::new(), Dtype::INDEX)),
        Value::Flag(_) => Some(plain(Vec::new(), Dtype::FLAG)),
        Value::Range { count, .. } => Some(plain(vec![*count], Dtype::INDEX)),
        Value::Sequence(items) if depth < MAX_NESTED && !too_much() => {
            let items = items.borrow();
            let inner: Vec<Array> =
                items.iter().map(|item| array_in(item, depth + 1)).collect::<Option<_>>()?;
            let first = inner.first()?;
            let dtype = inner.iter().fold(first.dtype, |dtype, item| dtype.with(item.dtype));
            Some(plain([&[inner.len() as u64], first.shape.as_slice()].concat(), dtype))
        }
        _ => None,
    }
}
