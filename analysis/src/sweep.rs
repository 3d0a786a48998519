//! Which shapes to run an operator at so that its law comes out determined, and proven.

use crate::error::Error;
use crate::law::volume;
use crate::model::joined;
use crate::verify;

/// NumPy elides temporaries of expressions from exactly this many bytes (DESIGN §8): smaller
/// arrays allocate differently.
const ELISION_BYTES: u128 = 262_144;
/// How many lengths either side of the wished one are looked at.
const REACH: u64 = 12;

/// The shapes a sweep may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Shortest length of each axis.
    pub lower: Vec<u64>,
    /// Longest length of each axis.
    pub upper: Vec<u64>,
}

impl Range {
    /// Checks the two ends.
    ///
    /// # Errors
    /// Different numbers of axes, none, empty ones, or ends in the wrong order.
    pub fn new(lower: Vec<u64>, upper: Vec<u64>) -> Result<Range, Error> {
        let ordered = lower.iter().zip(&upper).all(|(lower, upper)| 0 < *lower && lower <= upper);
        if lower.is_empty() || lower.len() != upper.len() || !ordered {
            return Err(Error::Shape(format!(
                "the shapes {}..{} are no range: give two shapes with as many axes, the smaller one first",
                joined(&lower),
                joined(&upper)
            )));
        }
        Ok(Range { lower, upper })
    }

    /// Lengths `t` of the way from lower to upper, evenly in logarithms.
    fn at(&self, t: f64) -> Vec<u64> {
        let length = |(&lower, &upper): (&u64, &u64)| {
            let length = lower as f64 * (upper as f64 / lower as f64).powf(t);
            (length.round() as u64).clamp(lower, upper)
        };
        self.lower.iter().zip(&self.upper).map(length).collect()
    }

    /// The same range cut to training shapes that `self.upper` can verify; `None` if too little
    /// is left of it.
    fn below_verification(&self) -> Option<Range> {
        let upper: Vec<u64> = self.upper.iter().map(|upper| upper * 10 / 18).collect();
        let shorter = Range::new(self.lower.clone(), upper).ok()?;
        let room = (0..=100).rev().map(|percent| shorter.at(f64::from(percent) / 100.0));
        let largest = room.into_iter().find(|shape| verify::is_far(&self.upper, shape))?;
        let enough = volume(&largest) >= volume(&self.lower).saturating_mul(2);
        enough.then(|| Range { lower: self.lower.clone(), upper: largest })
    }
}

/// Plans `runs` shapes, smallest first.
///
/// Volumes are spread evenly in logarithms; lengths are pairwise co-prime within a shape and, as
/// far as the range allows, across shapes; no shape is a cube; arrays of `item_bytes` elements
/// have at least 256 KiB where the range allows it. If the upper end has 8 times the volume (and
/// 1.8 times every length) of shapes that still leave room below, the last run is the
/// verification run there.
///
/// # Errors
/// Fewer runs than a law needs.
pub fn plan(range: &Range, runs: usize, item_bytes: u64) -> Result<Vec<Vec<u64>>, Error> {
    if runs < verify::MIN_SHAPES {
        return Err(Error::NoRuns(format!("a law needs at least {} runs, not {runs}", verify::MIN_SHAPES)));
    }
    let below = range.below_verification().filter(|_| runs > verify::MIN_SHAPES);
    let training = below.as_ref().unwrap_or(range);
    let count = if below.is_some() { runs - 1 } else { runs };
    let start = start(training, item_bytes);
    let mut shapes: Vec<Vec<u64>> = Vec::with_capacity(runs);
    for run in 0..count {
        let t = start + (1.0 - start) * run as f64 / (count - 1) as f64;
        shapes.push(near(&training.at(t), training, &shapes));
    }
    if below.is_some() {
        let ends = Range { lower: range.at(0.9), upper: range.upper.clone() };
        let last = near(&range.upper, &ends, &shapes);
        let far = shapes.iter().all(|shape| verify::is_far(&last, shape));
        shapes.push(if far { last } else { range.upper.clone() });
    }
    shapes.sort_by_key(|shape| (volume(shape), shape.clone()));
    shapes.dedup();
    if shapes.len() < verify::MIN_SHAPES {
        return Err(Error::NoRuns(format!(
            "the range {}..{} has room for {} different shapes, a law needs {}: give a wider one",
            joined(&range.lower),
            joined(&range.upper),
            shapes.len(),
            verify::MIN_SHAPES
        )));
    }
    Ok(shapes)
}

/// How far into the range arrays reach 256 KiB; 0 if they do not or that leaves no room.
fn start(range: &Range, item_bytes: u64) -> f64 {
    let elements = ELISION_BYTES.div_ceil(u128::from(item_bytes.max(1)));
    let reach = (0..=50).map(|percent| f64::from(percent) / 100.0);
    reach.into_iter().find(|&t| volume(&range.at(t)) >= elements).unwrap_or(0.0)
}

/// A shape near the wished one whose lengths have as little as possible in common with each other
/// and with those of earlier shapes. Of run k the k-th axis (counted round) may be even: without
/// any even length nobody can tell ⌊n/2⌋+1 from ⌈n/2⌉.
fn near(wished: &[u64], range: &Range, earlier: &[Vec<u64>]) -> Vec<u64> {
    let mut shape: Vec<u64> = Vec::with_capacity(wished.len());
    for (axis, &wish) in wished.iter().enumerate() {
        let low = wish.saturating_sub(REACH).max(range.lower[axis]);
        let high = wish.saturating_add(REACH).min(range.upper[axis]);
        let wants_even = earlier.len() % wished.len() == axis;
        let cost = |&length: &u64| {
            let within: u64 = shape.iter().map(|&other| clash(length, other, 40)).sum();
            let same_axis: u64 = earlier.iter().map(|other| 30 * u64::from(other[axis] == length)).sum();
            let across: u64 = earlier.iter().flatten().map(|&other| clash(length, other, 4)).sum();
            let parity = if (length % 2 == 0) == wants_even { 0 } else { 6 };
            (within + same_axis + across + parity + length.abs_diff(wish), length)
        };
        shape.push((low..=high).min_by_key(cost).unwrap_or(wish));
    }
    shape
}

/// The price of a common divisor; a common two alone is cheap across shapes.
fn clash(a: u64, b: u64, price: u64) -> u64 {
    match gcd(a, b) {
        1 => 0,
        2 => price / 4,
        _ => price,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lower: &[u64], upper: &[u64]) -> Range {
        Range::new(lower.to_vec(), upper.to_vec()).unwrap()
    }

    fn in_common(shape: &[u64]) -> usize {
        let pairs = (0..shape.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        pairs.filter(|&(i, j)| gcd(shape[i], shape[j]) > 1).count()
    }

    #[test]
    fn small_shapes_are_coprime_distinct_and_past_the_elision_threshold() {
        let shapes = plan(&range(&[37, 41, 43], &[60, 60, 60]), 4, 4).unwrap();
        assert_eq!(shapes.len(), 4);
        for shape in &shapes {
            assert_eq!(in_common(shape), 0, "{shapes:?}");
            assert!(shape.iter().zip([37, 41, 43]).all(|(&n, lower)| lower <= n && n <= 60), "{shapes:?}");
            assert!(4 * volume(shape) >= ELISION_BYTES * 98 / 100, "{shapes:?}");
        }
        assert!(volume(&shapes[3]) * 10 >= volume(&shapes[0]) * 18, "{shapes:?}");
        for axis in 0..3 {
            let even = shapes.iter().filter(|shape| shape[axis] % 2 == 0).count();
            assert!(even > 0 && even < 4, "axis {axis} of {shapes:?}");
        }
    }

    #[test]
    fn a_wide_range_ends_with_a_verification_run() {
        for (lower, upper) in [
            (vec![41, 43, 47], vec![200, 200, 200]),
            (vec![300, 310], vec![2000, 1900]),
            (vec![9000], vec![999_999]),
        ] {
            let shapes = plan(&range(&lower, &upper), 5, 4).unwrap();
            let (last, training) = shapes.split_last().unwrap();
            assert!(training.iter().all(|shape| verify::is_far(last, shape)), "{shapes:?}");
        }
    }

    #[test]
    fn odd_ranges_give_shapes_inside_them() {
        for (lower, upper) in
            [(vec![5], vec![50]), (vec![1, 1, 1, 1], vec![u64::MAX >> 8; 4]), (vec![7, 100], vec![7, 300])]
        {
            let range = range(&lower, &upper);
            for shape in plan(&range, 4, 8).unwrap() {
                assert!(
                    (0..lower.len()).all(|axis| lower[axis] <= shape[axis] && shape[axis] <= upper[axis])
                );
            }
        }
        let too_narrow = plan(&range(&[5], &[5]), 4, 8);
        assert!(too_narrow.unwrap_err().to_string().contains("room for 1 different"));
        assert!(Range::new(vec![5], vec![4]).is_err());
        assert!(Range::new(vec![], vec![]).is_err());
        assert!(plan(&range(&[5], &[9]), 2, 4).is_err());
    }
}
