//! Slices and grids of blocks: what Dask puts between operators, as shapes.

use serde::Deserialize;

use super::Array;

/// What is taken of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Cut {
    /// One element; the axis goes.
    At(i64),
    /// `start:stop:step` as in Python, negative numbers counting from the end.
    Range(Option<i64>, Option<i64>, Option<i64>),
}

/// The array that `cuts` take out of another, one per axis from the first; what they do not name
/// stays whole. `None`: more cuts than axes, or steps of no length.
pub(super) fn cut(array: &Array, cuts: &[Cut]) -> Option<Array> {
    let (named, rest) = array.shape.split_at_checked(cuts.len())?;
    let mut shape = Vec::with_capacity(array.shape.len());
    for (&length, cut) in named.iter().zip(cuts) {
        if let Cut::Range(start, stop, step) = *cut {
            shape.push(range(length, start, stop, step.unwrap_or(1))?);
        }
    }
    shape.extend(rest);
    Some(Array { shape, dtype: array.dtype.clone() })
}

/// Elements of `start:stop:step`, as Python's `slice.indices` counts them.
fn range(length: u64, start: Option<i64>, stop: Option<i64>, step: i64) -> Option<u64> {
    let length = i128::from(length);
    let step = i128::from(step);
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let place = |at: Option<i64>, otherwise: i128| {
        at.map_or(otherwise, |at| {
            let at = i128::from(at);
            (if at < 0 { at + length } else { at }).clamp(low, high)
        })
    };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    let (start, stop) = (place(start, first), place(stop, last));
    let across = if step > 0 { stop - start } else { start - stop };
    let count = if across <= 0 { 0 } else { (across - 1) / step.checked_abs().filter(|&s| s > 0)? + 1 };
    if step == 0 { None } else { u64::try_from(count).ok() }
}

/// The array that a grid of blocks makes, `counts` of them along each axis, in C order. `None`:
/// another number of blocks, or blocks whose shapes do not meet.
pub(super) fn join(blocks: &[&Array], counts: &[u64]) -> Option<Array> {
    let first = blocks.first()?;
    // Axes before those of the grid are as they are in every block.
    let extra = first.shape.len().checked_sub(counts.len())?;
    let product = counts.iter().try_fold(1u64, |product, &count| product.checked_mul(count))?;
    if product != blocks.len() as u64 || blocks.iter().any(|block| block.shape.len() != first.shape.len()) {
        return None;
    }
    let mut shape = first.shape[..extra].to_vec();
    let mut stride = blocks.len();
    for (axis, &count) in counts.iter().enumerate() {
        stride /= usize::try_from(count).ok().filter(|&count| count > 0)?;
        let along = (0..count as usize).map(|at| blocks[at * stride].shape[extra + axis]);
        shape.push(along.fold(0u64, u64::saturating_add));
    }
    Some(Array { shape, dtype: first.dtype.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[u64]) -> Array {
        Array { shape: shape.to_vec(), dtype: "<f4".into() }
    }

    #[test]
    fn slices_count_as_python_counts_them() {
        for (start, stop, step, count) in [
            (None, None, 1, 10),
            (Some(2), Some(8), 3, 2),
            (Some(-12), None, 1, 10),
            (Some(-3), None, 1, 3),
            (None, None, -1, 10),
            (Some(8), Some(2), -4, 2),
            (Some(5), Some(5), 1, 0),
            (Some(i64::MIN), Some(i64::MAX), 1, 10),
        ] {
            assert_eq!(range(10, start, stop, step), Some(count), "{start:?}:{stop:?}:{step}");
        }
        assert_eq!(range(10, None, None, 0), None);
        let cuts = [Cut::At(3), Cut::Range(Some(-2), None, None)];
        assert_eq!(cut(&array(&[10, 10, 7]), &cuts).unwrap().shape, [2, 7]);
        assert_eq!(cut(&array(&[10]), &cuts), None);
    }

    #[test]
    fn blocks_are_joined_along_each_axis() {
        let blocks = [array(&[2, 3]), array(&[2, 4]), array(&[5, 3]), array(&[5, 4])];
        let blocks: Vec<&Array> = blocks.iter().collect();
        assert_eq!(join(&blocks, &[2, 2]).unwrap().shape, [7, 7]);
        assert_eq!(join(&blocks, &[2, 1]), None);
        assert_eq!(join(&blocks, &[0, 4]), None);
        assert_eq!(join(&[], &[0]), None);
        assert_eq!(join(&blocks[..2], &[2]).unwrap().shape, [2, 7]);
    }
}
