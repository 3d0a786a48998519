//! The allocation sequence of an operator, evaluated at any shape: which step sets the peak.

use serde::{Deserialize, Serialize};

use super::Size;
use crate::shape::Point;

/// What an operator allocates and releases, in order.
///
/// Two blocks of equal size are interchangeable for every live sum, so a step names a size and
/// not a block.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sequence {
    /// Blocks below this many bytes are not in the sequence but in the law's residual.
    pub threshold_bytes: u64,
    /// The distinct sizes.
    pub sizes: Vec<Size>,
    /// `i + 1`: a block of size i is allocated; `-(i + 1)`: one is released.
    pub steps: Vec<i64>,
    /// Call stacks in words, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
    /// Per step, `i + 1` if it is at place i, 0 if that is not known; may be shorter than `steps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<u32>,
}

/// Where a sequence has most live, at one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peak {
    /// Bytes live.
    pub bytes: u128,
    /// Index of the step that reaches it; 0 also for an empty sequence.
    pub step: usize,
    /// Blocks live then: (index of the size, how many).
    pub live: Vec<(usize, u64)>,
}

impl Sequence {
    /// The largest live sum over all steps at a point; `None` where a size does not fit 128 bits.
    pub fn peak(&self, point: &Point) -> Option<Peak> {
        let bytes = self.sizes.iter().map(|size| size.at(point)).collect::<Option<Vec<_>>>()?;
        let (step, bytes) = self.largest(&bytes)?;
        Some(Peak { bytes, step, live: self.live_after(step) })
    }

    /// Bytes of the peak.
    pub fn peak_bytes(&self, point: &Point) -> Option<u128> {
        self.peak_of(|size| size.at(point))
    }

    /// The same with every size at its upper bound.
    pub fn upper_bytes(&self, point: &Point) -> Option<u128> {
        self.peak_of(|size| size.upper(point))
    }

    /// The same where sizes have these bytes.
    pub fn peak_of(&self, bytes: impl Fn(&Size) -> Option<u128>) -> Option<u128> {
        let bytes = self.sizes.iter().map(bytes).collect::<Option<Vec<_>>>()?;
        Some(self.largest(&bytes)?.1)
    }

    /// Bytes of the blocks that outlive it: results, and what is released right after the end.
    pub fn left_bytes(&self, point: &Point) -> Option<u128> {
        self.left(|size| size.at(point))
    }

    /// The same with every size at its upper bound.
    pub fn left_upper_bytes(&self, point: &Point) -> Option<u128> {
        self.left(|size| size.upper(point))
    }

    fn left(&self, bytes: impl Fn(&Size) -> Option<u128>) -> Option<u128> {
        let left = self.live_after(self.steps.len());
        left.into_iter().try_fold(0u128, |sum, (index, count)| {
            sum.checked_add(bytes(self.sizes.get(index)?)?.checked_mul(count.into())?)
        })
    }

    /// Index of the size a step is about, and whether it allocates.
    pub fn step(&self, step: i64) -> Option<(usize, bool)> {
        let index = usize::try_from(step.unsigned_abs()).ok()?.checked_sub(1)?;
        (index < self.sizes.len()).then_some((index, step > 0))
    }

    /// Where a step is, in words.
    pub fn place(&self, step: usize) -> Option<&str> {
        let place = (*self.placed.get(step)? as usize).checked_sub(1)?;
        self.places.get(place).map(String::as_str)
    }

    fn largest(&self, bytes: &[u128]) -> Option<(usize, u128)> {
        let (mut live, mut largest) = (0u128, (0, 0u128));
        for (position, &step) in self.steps.iter().enumerate() {
            let (index, allocates) = self.step(step)?;
            if allocates {
                live = live.checked_add(bytes[index])?;
                if live > largest.1 {
                    largest = (position, live);
                }
            } else {
                live = live.checked_sub(bytes[index])?;
            }
        }
        Some(largest)
    }

    fn live_after(&self, last: usize) -> Vec<(usize, u64)> {
        let mut counts = vec![0i64; self.sizes.len()];
        for (index, allocates) in self.steps.iter().take(last + 1).filter_map(|&step| self.step(step)) {
            counts[index] += if allocates { 1 } else { -1 };
        }
        let counted = counts.into_iter().enumerate();
        counted
            .filter_map(|(index, count)| Some((index, u64::try_from(count).ok().filter(|&n| n > 0)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::{Factor, Form, Rule};

    fn power(coefficient: u64, power: u8) -> Size {
        let factor = Factor { variable: 0, rule: Rule::Length, offset: 0, power };
        Size::Exact { form: Form { coefficient, factors: vec![factor], constant: 0 }, others: vec![] }
    }

    /// One step allocates 1000·n, a later one n²: which one is the peak depends on n.
    #[test]
    fn another_step_becomes_the_peak_at_larger_shapes() {
        let sequence = Sequence {
            threshold_bytes: 4096,
            sizes: vec![power(1000, 1), power(1, 2), power(7, 1)],
            steps: vec![3, 1, -1, 2, -2, -3],
            ..Sequence::default()
        };
        let small = sequence.peak(&[100]).unwrap();
        assert_eq!((small.bytes, small.step), (100_700, 1));
        assert_eq!(small.live, vec![(0, 1), (2, 1)]);
        let large = sequence.peak(&[10_000]).unwrap();
        assert_eq!((large.bytes, large.step), (100_070_000, 3));
        assert_eq!(large.live, vec![(1, 1), (2, 1)]);
    }

    #[test]
    fn a_sequence_that_names_no_size_or_releases_nothing_has_no_peak() {
        for steps in [vec![2], vec![0], vec![-1], vec![i64::MIN]] {
            let sequence = Sequence { sizes: vec![power(1, 1)], steps, ..Sequence::default() };
            assert_eq!(sequence.peak_bytes(&[3]), None);
        }
    }
}
