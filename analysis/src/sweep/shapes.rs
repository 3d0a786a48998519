//! Shapes of a range: at a volume, with few common divisors, far from others.

use crate::error::Error;
use crate::fit::{elision, verify};
use crate::law::MIN_SHAPES;
use crate::law::Rule;
use crate::shape::joined;
use crate::shape::volume;

/// Smaller arrays allocate differently.
const ELISION_BYTES: f64 = elision::ELISION_BYTES as f64;
/// Bytes of the elements usual in large arrays; masks have one.
const ITEM_BYTES: f64 = 4.0;
/// Volumes of training shapes grow by this factor, so that the largest has four times the smallest.
const GROWTH: f64 = 2.0;
/// How much longer the first axis is, and how much shorter the last one, in a shape that leans.
const LEAN: f64 = 1.2;
/// How many lengths either side of the wished one are considered.
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
    /// Different numbers of axes, none, empty ones, ends in the wrong order, or room for fewer
    /// shapes than a law needs.
    pub fn new(lower: Vec<u64>, upper: Vec<u64>) -> Result<Range, Error> {
        let ordered = lower.iter().zip(&upper).all(|(lower, upper)| 0 < *lower && lower <= upper);
        let (from, to) = (joined(&lower), joined(&upper));
        if lower.is_empty() || lower.len() != upper.len() || !ordered {
            return Err(Error::Shape(format!(
                "the shapes {from}..{to} are no range: give two shapes with as many axes, the smaller one first"
            )));
        }
        let lengths = lower.iter().zip(&upper).map(|(lower, upper)| upper - lower + 1);
        let room = lengths.fold(1u64, u64::saturating_mul);
        if room < MIN_SHAPES as u64 {
            return Err(Error::NoRuns(format!(
                "the range {from}..{to} has room for {room} different shapes, a law needs {MIN_SHAPES}: give a wider one"
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

    /// The shape of about this volume on the way from lower to upper.
    pub(super) fn at_volume(&self, wished: f64) -> Vec<u64> {
        let (smallest, largest) = (volume(&self.lower) as f64, volume(&self.upper) as f64);
        if largest <= smallest {
            return self.upper.clone();
        }
        self.at(((wished / smallest).ln() / (largest / smallest).ln()).clamp(0.0, 1.0))
    }

    /// The shape for the n-th training run, from 0, of about this volume. The first leans to the first
    /// axis and the second to the last, where the range has room: where all runs have one proportion,
    /// n0² looks like n0·n1, and what an operator does when another axis is the longest stays unseen.
    pub(super) fn of_run(&self, run: usize, wished: f64) -> Vec<u64> {
        let shape = self.at_volume(wished);
        let lean = match run {
            0 => LEAN,
            1 => 1.0 / LEAN,
            _ => return shape,
        };
        let varying: Vec<usize> =
            (0..shape.len()).filter(|&axis| self.lower[axis] < self.upper[axis]).collect();
        let mut leaning = shape.clone();
        for (place, &axis) in varying.iter().enumerate() {
            let power = 1.0 - 2.0 * place as f64 / (varying.len() - 1).max(1) as f64;
            leaning[axis] = (shape[axis] as f64 * lean.powf(power)).round() as u64;
        }
        // A verification run has 1.8 times each length.
        let longest = |axis: usize| shape[axis].max((u128::from(self.upper[axis]) * 10 / 18) as u64);
        let fits = |&axis: &usize| (self.lower[axis]..=longest(axis)).contains(&leaning[axis]);
        if varying.len() > 1 && varying.iter().all(fits) { leaning } else { shape }
    }

    /// The part of the range, from its lower end, in which `fits` is true.
    pub(super) fn up_to(&self, fits: impl Fn(&[u64]) -> bool) -> Range {
        let reach = (0..=100).rev().map(|percent| self.at(f64::from(percent) / 100.0));
        let upper = reach.into_iter().find(|shape| fits(shape)).unwrap_or_else(|| self.lower.clone());
        Range { lower: self.lower.clone(), upper }
    }

    /// The smallest shapes of the range, in no order.
    pub(super) fn smallest(&self) -> impl Iterator<Item = Vec<u64>> {
        const EACH: u64 = 4;
        const MOST: u64 = 1 << 12;
        let lengths = |axis: usize| (self.upper[axis] - self.lower[axis] + 1).min(EACH);
        let count = (0..self.lower.len()).map(lengths).fold(1, u64::saturating_mul).min(MOST);
        (0..count).map(move |mut number| {
            let mut digit = |axis: usize| {
                let digit = number % lengths(axis);
                number /= lengths(axis);
                self.lower[axis] + digit
            };
            (0..self.lower.len()).map(&mut digit).collect()
        })
    }

    /// The smallest shape in the range that is far from all of these; `None` if there is none.
    pub(super) fn far_from(&self, trained: &[&[u64]]) -> Option<Vec<u64>> {
        let mut shape = least_far(trained);
        for (length, (&lower, &upper)) in shape.iter_mut().zip(self.lower.iter().zip(&self.upper)) {
            *length = (*length).clamp(lower, upper);
        }
        let far = |shape: &[u64]| trained.iter().all(|trained| verify::is_far(shape, trained));
        // What one axis could not give, the others must.
        while !far(&shape) {
            let room = |&axis: &usize| shape[axis] < self.upper[axis];
            let axis = (0..shape.len()).filter(room).min_by_key(|&axis| shape[axis])?;
            shape[axis] += 1 + shape[axis] / 64;
            shape[axis] = shape[axis].min(self.upper[axis]);
        }
        Some(shape)
    }

    /// The largest volume of training shapes that leaves room for a verification run; `None` if
    /// too little would be left for them.
    fn top_below_verification(&self) -> Option<f64> {
        // An axis of one length is no longer in the verification run either.
        let shortest = |(&lower, &upper): (&u64, &u64)| match lower == upper {
            true => upper,
            false => (u128::from(upper) * 10 / 18) as u64,
        };
        let upper: Vec<u64> = self.lower.iter().zip(&self.upper).map(shortest).collect();
        let shorter = Range::new(self.lower.clone(), upper).ok()?;
        let mut room = (0..=100).rev().map(|percent| shorter.at(f64::from(percent) / 100.0));
        let largest = room.find(|shape| verify::is_far(&self.upper, shape))?;
        let enough = volume(&largest) >= volume(&self.lower).saturating_mul(2);
        enough.then(|| volume(&largest) as f64)
    }
}

/// The smallest shape far from all of these, whatever the range; axes that never varied stay as
/// they are.
pub(super) fn least_far(trained: &[&[u64]]) -> Vec<u64> {
    let axes = trained.first().map_or(0, |shape| shape.len());
    let longest = |axis: usize| trained.iter().map(|shape| shape[axis]).max().unwrap_or(1) as f64;
    let largest = trained.iter().map(|shape| volume(shape)).max().unwrap_or(1) as f64;
    let differs = |axis: usize| trained.iter().any(|shape| shape[axis] != trained[0][axis]);
    let any_differs = (0..axes).any(differs);
    let varies = |axis: &usize| differs(*axis) || !any_differs;
    let longer = |axis: usize| longest(axis) * if varies(&axis) { 1.8 } else { 1.0 };
    let missing = 8.0 * largest / (0..axes).map(longer).product::<f64>();
    let scale = missing.max(1.0).powf(1.0 / (0..axes).filter(varies).count().max(1) as f64);
    let scaled = |axis: usize| longer(axis) * if varies(&axis) { scale } else { 1.0 };
    (0..axes).map(|axis| scaled(axis).ceil() as u64).collect()
}

/// The middle, in logarithms, of the widest gap between the volumes of these shapes.
pub(super) fn widest_gap(shapes: &[&[u64]]) -> f64 {
    let mut volumes: Vec<f64> = shapes.iter().map(|shape| volume(shape) as f64).collect();
    volumes.sort_by(f64::total_cmp);
    let wider = |a: &&[f64], b: &&[f64]| (a[1] / a[0]).total_cmp(&(b[1] / b[0]));
    volumes.windows(2).max_by(wider).map_or(1.0, |pair| (pair[0] * pair[1]).sqrt())
}

/// Volumes of training shapes.
pub(super) struct Steps {
    start: f64,
    growth: f64,
    top: f64,
}

impl Steps {
    /// For a range as far as it can be afforded; `first` is the smallest volume that was run.
    ///
    /// The first is the smallest whose arrays, masks too, reach 256 KiB, if that leaves room to
    /// grow fourfold before a verification run; else the smallest at which arrays of four-byte
    /// elements do, if that leaves room to double; else it is as small as the range allows.
    pub(super) fn new(range: &Range, first: Option<u128>) -> Steps {
        let smallest = volume(&range.lower) as f64;
        let top = range.top_below_verification().unwrap_or(volume(&range.upper) as f64);
        let masks = ELISION_BYTES.min(top / (GROWTH * GROWTH));
        let floats = ELISION_BYTES / ITEM_BYTES;
        let wished = if masks < floats && floats <= top / GROWTH { floats } else { masks };
        let start = first.map_or(wished.max(smallest), |first| first as f64);
        let growth = (top / start).max(1.0).powf(1.0 / (MIN_SHAPES - 1) as f64).min(GROWTH);
        Steps { start, growth, top: top.max(start) }
    }

    /// Volume of the n-th training shape, from 0.
    pub(super) fn volume(&self, run: usize) -> f64 {
        self.start * self.growth.powi(i32::try_from(run).unwrap_or(i32::MAX))
    }

    /// The largest volume a training shape may have.
    pub(super) fn top(&self) -> u128 {
        self.top as u128
    }

    /// Volumes to consider for further training shapes, small to large.
    pub(super) fn volumes(&self) -> impl Iterator<Item = f64> {
        let reach = (self.top / self.start).min(GROWTH.powi(4));
        let start = self.start;
        (0..=12).map(move |step| start * reach.powf(f64::from(step) / 12.0))
    }
}

/// A shape near the wished one that scores high, and whose lengths have as little as possible in
/// common with each other and with those of earlier shapes. Of run k the k-th axis (counted round)
/// may be even: without any even length ⌊n/2⌋+1 and ⌈n/2⌉ look the same.
pub(super) fn near(
    wished: &[u64],
    range: &Range,
    earlier: &[Vec<u64>],
    score: &dyn Fn(&[u64]) -> u64,
) -> Vec<u64> {
    let mut shape = wished.to_vec();
    for (axis, &wish) in wished.iter().enumerate() {
        let low = wish.saturating_sub(REACH).max(range.lower[axis]);
        let high = wish.saturating_add(REACH).min(range.upper[axis]);
        let wants_even = earlier.len() % wished.len().max(2) == axis;
        let cost = |&length: &u64| {
            let within: u64 = shape[..axis].iter().map(|&other| clash(length, other, 40)).sum();
            let same_axis: u64 = earlier.iter().map(|other| 30 * u64::from(other[axis] == length)).sum();
            let across: u64 = earlier.iter().flatten().map(|&other| clash(length, other, 4)).sum();
            let parity = if (length % 2 == 0) == wants_even { 0 } else { 6 };
            let smooth = 4 * looks_smooth(length, earlier.iter().map(|other| other[axis]));
            let mut tried = shape.clone();
            tried[axis] = length;
            let cost = within + same_axis + across + parity + smooth + length.abs_diff(wish);
            (std::cmp::Reverse(score(&tried)), cost, length)
        };
        shape[axis] = (low..=high).min_by_key(cost).unwrap_or(wish);
    }
    shape
}

/// At how many small offsets this length and all earlier ones of its axis are good lengths of an
/// FFT: there a trimmed or padded axis cannot be distinguished from one that was rounded up.
fn looks_smooth(length: u64, earlier: impl Iterator<Item = u64> + Clone) -> u64 {
    const OFFSETS: u64 = 4;
    let is_smooth = |length: u64| Rule::FastComplex.of(length) == Some(length);
    let offsets = (0..=2 * OFFSETS).filter(|offset| {
        let mut lengths = earlier.clone().chain([length]);
        lengths.all(|length| is_smooth(length.saturating_add(*offset).saturating_sub(OFFSETS).max(1)))
    });
    offsets.count() as u64
}

/// The price of a common divisor; a common two is cheap across shapes.
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
