//! Which shapes come out of a library's function: a rule each, over its bound arguments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dtype::Dtype;
use super::lengths::{
    arange, concatenated, convolved, einsum, matrix_product, padded, repeated, spectrum, stacked, stft, svd,
    tensordot,
};
use super::value::{Array, Value, product};

/// How the shape of a result follows from the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// That of the first array.
    Like,
    /// All arrays broadcast.
    Broadcast,
    /// Without `axis`, or all axes.
    Reduce,
    /// `shape`, in elements of `dtype`.
    Filled,
    /// One axis: all elements.
    Flat,
    /// One axis: all elements; and as many indices, inverses and counts as are asked for.
    Unique,
    /// One axis: all elements, or that many of each axis asked for.
    FlatOrLike,
    /// One number.
    Number,
    /// A vector per axis, of all elements.
    Positions,
    /// `axis` of n becomes ⌊n/2⌋+1.
    HalfSpectrum,
    /// `axis` of n becomes `n`, else 2(n−1).
    FromHalfSpectrum,
    /// `axis` (or all) becomes `n` (`s`) if given.
    Spectrum,
    /// Arrays behind each other along `axis`.
    Concatenate,
    /// Arrays beside each other along a new `axis`.
    Stack,
    /// Matrix product.
    Product,
    /// Contraction over `axes`.
    Tensordot,
    /// `subscripts`.
    Einsum,
    /// `pad_width` around.
    Pad,
    /// `repeats` along `axis`.
    Repeat,
    /// `start, stop, step`.
    Arange,
    /// `num` numbers.
    Linspace,
    /// `n` fewer along `axis`.
    Difference,
    /// `mode` full, same or valid.
    Convolve,
    /// Values and vectors of square matrices.
    Eigen,
    /// The last axis dropped.
    LastDropped,
    /// U, s, Vᵀ of matrices.
    Svd,
    /// Q and R.
    Qr,
    /// One array like the first for each axis, or for `axis`.
    Gradient,
    /// `bins` counts and the edges between them.
    Histogram,
    /// `q` values, each without `axis`.
    Quantile,
    /// Each axis `zoom` times as long.
    Zoom,
    /// `coordinates` without its first axis.
    Coordinates,
    /// `num` along `axis`.
    Resample,
    /// An index for every axis of `dimensions`.
    Indices,
    /// Arrays that span a grid.
    Meshgrid,
    /// One of three arrays, or the positions of one.
    Where,
    /// That of the third array.
    LikeThird,
    /// That of the second array.
    LikeSecond,
    /// `indices` along `axis`.
    Take,
    /// Frequencies, times and a spectrum of windows of `nperseg`.
    Stft,
    /// Labels like the first array, and how many.
    Label,
    /// Outer product.
    Outer,
    /// Square: variables by variables.
    Covariance,
    /// `minlength` counts, or the second array's.
    Counts,
    /// Nothing comes out.
    Nothing,
}

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

impl Rule {
    /// Shapes of the results; None where the arguments do not say.
    pub fn shapes(self, bound: &Bound) -> Option<Shapes> {
        let arrays = &bound.arrays;
        let first = || arrays.first().map(|array| array.shape.clone());
        let rank = arrays.first().map_or(0, |array| array.shape.len());
        let with_axis = |default: i64, length: &dyn Fn(u64) -> u64| {
            let mut shape = first()?;
            let axis = bound.axis_or(default, rank);
            *shape.get_mut(axis)? = length(shape[axis]);
            Some(shape)
        };
        let one = |shape: Option<Vec<u64>>| shape.map(Shapes::One);
        match self {
            Rule::Like => one(first()),
            Rule::LikeSecond => one(arrays.get(1).or(arrays.first()).map(|array| array.shape.clone())),
            Rule::LikeThird => one(arrays.get(2).or(arrays.last()).map(|array| array.shape.clone())),
            Rule::Broadcast if arrays.is_empty() => Some(Shapes::Number),
            Rule::Broadcast => one(Some(broadcast(arrays.iter().map(|array| array.shape.as_slice())))),
            Rule::Where if arrays.len() == 1 => Rule::Positions.shapes(bound),
            Rule::Where => Rule::Broadcast.shapes(bound),
            Rule::Reduce => one(Some(reduced(bound, &first()?))),
            Rule::Filled => one(Some(bound.lengths(bound.get(&["shape", "N", "n", "M"])?))),
            Rule::Flat => one(Some(vec![product(&first()?)])),
            Rule::Unique => {
                let asked = ["return_index", "return_inverse", "return_counts"];
                let asked =
                    asked.iter().filter(|name| bound.get(&[**name]).and_then(Value::truth) == Some(true));
                let flat = vec![product(&first()?)];
                let more = asked.count();
                if more == 0 { one(Some(flat)) } else { Some(Shapes::Several(vec![flat; more + 1])) }
            }
            Rule::FlatOrLike if bound.axes(rank).is_some() => one(first()),
            Rule::FlatOrLike => one(Some(vec![product(&first()?)])),
            Rule::Number => Some(Shapes::Number),
            Rule::Nothing => Some(Shapes::Nothing),
            Rule::Positions => Some(Shapes::Several(vec![vec![product(&first()?)]; rank.max(1)])),
            Rule::HalfSpectrum => {
                let asked = bound.length(&["n"]);
                one(with_axis(-1, &|n| asked.unwrap_or(n) / 2 + 1))
            }
            Rule::FromHalfSpectrum => {
                let asked = bound.length(&["n"]);
                one(with_axis(-1, &|n| asked.unwrap_or(2 * n.saturating_sub(1))))
            }
            Rule::Spectrum => one(spectrum(bound, first()?)),
            Rule::Concatenate => one(concatenated(bound, arrays)),
            Rule::Stack => one(stacked(bound, arrays)),
            Rule::Product => one(matrix_product(&first()?, &arrays.get(1)?.shape)),
            Rule::Tensordot => one(tensordot(bound, &first()?, &arrays.get(1)?.shape)),
            Rule::Einsum => one(einsum(bound, arrays)),
            Rule::Pad => one(padded(bound, first()?)),
            Rule::Repeat => one(repeated(bound, first()?)),
            Rule::Arange => one(Some(vec![arange(bound).unwrap_or(bound.longest)])),
            Rule::Linspace => one(Some(vec![bound.length(&["num"]).unwrap_or(50)])),
            Rule::Difference => {
                let by = bound.length(&["n"]).unwrap_or(1);
                one(with_axis(-1, &|n| n.saturating_sub(by)))
            }
            Rule::Convolve => one(convolved(bound, &first()?, &arrays.get(1)?.shape)),
            Rule::Eigen => {
                let whole = first()?;
                let values = whole.get(..rank.checked_sub(1)?)?.to_vec();
                Some(Shapes::Several(vec![values, whole]))
            }
            Rule::LastDropped => one(Some(first()?.get(..rank.checked_sub(1)?)?.to_vec())),
            Rule::Svd => svd(bound, &first()?),
            Rule::Qr => {
                let whole = first()?;
                let (stack, ends) = whole.split_at_checked(rank.checked_sub(2)?)?;
                let least = ends[0].min(ends[1]);
                Some(Shapes::Several(vec![
                    [stack, &[ends[0], least]].concat(),
                    [stack, &[least, ends[1]]].concat(),
                ]))
            }
            Rule::Gradient => match bound.axes(rank) {
                Some(axes) if axes.len() == 1 => one(first()),
                axes => {
                    let count = axes.map_or(rank, |axes| axes.len());
                    if count == 1 { one(first()) } else { Some(Shapes::Several(vec![first()?; count])) }
                }
            },
            Rule::Histogram => {
                let edges = bound.get(&["bins"]).and_then(|bins| bins.arrays().first().map(Array::elements));
                let bins = bound.length(&["bins"]).or(edges).unwrap_or(10);
                Some(Shapes::Several(vec![vec![bins], vec![bins + 1]]))
            }
            Rule::Quantile => {
                let kept = reduced(bound, &first()?);
                let asked = match bound.get(&["q"]) {
                    Some(Value::Array(q)) => q.shape.clone(),
                    Some(q) => q.items().map(|items| vec![items.len() as u64]).unwrap_or_default(),
                    None => Vec::new(),
                };
                one(Some([asked, kept].concat()))
            }
            Rule::Zoom => {
                let zoom = bound.get(&["zoom"]);
                let each = zoom.and_then(Value::items);
                let times = |axis: usize| match &each {
                    Some(items) => items.get(axis).and_then(Value::number),
                    None => zoom.and_then(Value::number),
                };
                let longer =
                    |(axis, &n): (usize, &u64)| (n as f64 * times(axis).unwrap_or(1.0)).round() as u64;
                one(Some(first()?.iter().enumerate().map(longer).collect()))
            }
            Rule::Coordinates => {
                let spread = bound.get(&["coordinates"]).map(Value::arrays).unwrap_or_default();
                one(match spread.as_slice() {
                    [one] => Some(one.shape.get(1..)?.to_vec()),
                    several => Some(broadcast(several.iter().map(|array| array.shape.as_slice()))),
                })
            }
            Rule::Resample => {
                let num = bound.length(&["num"]).unwrap_or(bound.longest);
                one(with_axis(0, &|_| num))
            }
            Rule::Indices => {
                let grid = bound.lengths(bound.get(&["dimensions"])?);
                one(Some([vec![grid.len() as u64], grid].concat()))
            }
            Rule::Meshgrid => {
                let mut grid: Vec<u64> = arrays.iter().map(Array::elements).collect();
                let plain = matches!(bound.get(&["indexing"]), Some(Value::Text(text)) if &**text == "ij");
                if grid.len() > 1 && !plain {
                    grid.swap(0, 1);
                }
                Some(Shapes::Several(vec![grid; arrays.len()]))
            }
            Rule::Take => {
                let indices = bound.get(&["indices"])?;
                let count = indices.arrays().first().map(Array::elements);
                let count = count.or(indices.items().map(|items| items.len() as u64)).unwrap_or(1);
                if bound.axes(rank).is_some() {
                    one(with_axis(0, &|_| count))
                } else {
                    one(Some(vec![count]))
                }
            }
            Rule::Stft => stft(bound, first()?),
            Rule::Label => Some(Shapes::Several(vec![first()?, Vec::new()])),
            Rule::Outer => one(Some(arrays.iter().take(2).map(Array::elements).collect())),
            Rule::Covariance => {
                let rows = first()?.first().copied()?;
                let columns = first()?.get(1).copied().unwrap_or(1);
                let flipped = bound.get(&["rowvar"]).and_then(Value::truth) == Some(false);
                let side = if flipped { columns } else { rows };
                one(Some(vec![side, side]))
            }
            Rule::Counts => one(Some(vec![bound.length(&["minlength"]).unwrap_or(256).max(1)])),
        }
    }
}

/// Numbers in a list as the array a library makes of them.
pub fn array_of(value: &Value) -> Option<Array> {
    let plain = |shape: Vec<u64>, dtype| Array {
        shape,
        dtype,
        layout: super::value::Layout::C,
        blocks: value.blocks(),
        class: None,
    };
    match value {
        Value::Array(array) => Some(array.clone()),
        Value::Number { float: true, .. } => Some(plain(Vec::new(), Dtype::DOUBLE)),
        Value::Number { .. } => Some(plain(Vec::new(), Dtype::INDEX)),
        Value::Flag(_) => Some(plain(Vec::new(), Dtype::FLAG)),
        Value::Range { count, .. } => Some(plain(vec![*count], Dtype::INDEX)),
        Value::Sequence(items) => {
            let items = items.borrow();
            let inner: Vec<Array> = items.iter().map(array_of).collect::<Option<_>>()?;
            let first = inner.first()?;
            let dtype = inner.iter().fold(first.dtype, |dtype, item| dtype.with(item.dtype));
            Some(plain([&[inner.len() as u64], first.shape.as_slice()].concat(), dtype))
        }
        _ => None,
    }
}
