//! Which shapes come out of a library's function: a rule each, over its bound arguments.

use serde::{Deserialize, Serialize};

use super::arguments::{Bound, Shapes, broadcast, reduced};
use super::lengths::{
    arange, concatenated, convolved, coordinates, covariance, eigen, einsum, gradient, histogram,
    matrix_product, meshgrid, padded, qr, quantile, repeated, spectrum, stacked, stft, svd, taken, tensordot,
    unique, zoomed,
};
use super::value::{Array, product};

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
    /// The second after the first: along `axis`, or all elements of both.
    Append,
    /// One axis: all elements; and as many indices, inverses and counts as are requested.
    Unique,
    /// One axis: all elements, or that many of each axis given.
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
    /// Arrays next to each other along a new `axis`.
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
            Rule::FlatOrLike if bound.axes(rank).is_some() => one(first()),
            Rule::Flat | Rule::FlatOrLike => one(Some(vec![product(&first()?)])),
            Rule::Unique => unique(bound, &first()?),
            Rule::Number => Some(Shapes::Number),
            Rule::Nothing => Some(Shapes::Nothing),
            Rule::Positions => Some(Shapes::Several(vec![vec![product(&first()?)]; rank.max(1)])),
            Rule::HalfSpectrum => {
                let given = bound.length(&["n"]);
                one(with_axis(-1, &|n| given.unwrap_or(n) / 2 + 1))
            }
            Rule::FromHalfSpectrum => {
                let given = bound.length(&["n"]);
                one(with_axis(-1, &|n| given.unwrap_or(2 * n.saturating_sub(1))))
            }
            Rule::Spectrum => one(spectrum(bound, first()?)),
            Rule::Concatenate => one(concatenated(bound, arrays)),
            Rule::Append if bound.axes(rank).is_some() => one(concatenated(bound, arrays)),
            Rule::Append => one(Some(vec![arrays.iter().map(Array::elements).sum()])),
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
            Rule::Eigen => eigen(first()?),
            Rule::LastDropped => one(Some(first()?.get(..rank.checked_sub(1)?)?.to_vec())),
            Rule::Svd => svd(bound, &first()?),
            Rule::Qr => qr(&first()?),
            Rule::Gradient => gradient(bound, first()?),
            Rule::Histogram => Some(histogram(bound)),
            Rule::Quantile => one(Some(quantile(bound, &first()?))),
            Rule::Zoom => one(Some(zoomed(bound, &first()?))),
            Rule::Coordinates => one(coordinates(bound)),
            Rule::Resample => {
                let num = bound.length(&["num"]).unwrap_or(bound.longest);
                one(with_axis(0, &|_| num))
            }
            Rule::Indices => {
                let grid = bound.lengths(bound.get(&["dimensions"])?);
                one(Some([vec![grid.len() as u64], grid].concat()))
            }
            Rule::Meshgrid => Some(meshgrid(bound, arrays)),
            Rule::Take => {
                let count = taken(bound)?;
                one(if bound.axes(rank).is_some() { with_axis(0, &|_| count) } else { Some(vec![count]) })
            }
            Rule::Stft => stft(bound, first()?),
            Rule::Label => Some(Shapes::Several(vec![first()?, Vec::new()])),
            Rule::Outer => one(Some(arrays.iter().take(2).map(Array::elements).collect())),
            Rule::Covariance => one(covariance(bound, &first()?)),
            // Without it, as many as the largest number says.
            Rule::Counts => one(Some(vec![bound.length(&["minlength"])?.max(1)])),
        }
    }
}
