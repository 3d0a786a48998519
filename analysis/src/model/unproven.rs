//! Bounds that no run has proven: what is added to them, and what they have at least.
//!
//! A law that misses how something grows is too low by any factor beyond its runs, and one that was
//! fitted to most of its runs says nothing of the others. What whole runs needed does not depend on
//! the law. The figures were chosen on the first set of docs/results/laws-promises.md.

use super::confidence::{NEGLIGIBLE, confidence};
use super::law::Law;
use super::parts::{Body, Proof};
use crate::law::Size;
use crate::shape::{Point, volume};
use crate::stats::regression::Regression;

/// What is added to every such bound: scratch memory that depends on the factors of a length.
const MARGIN: f64 = 0.02;
/// What a run may need beyond the bound: the interpreter's own objects come and go.
const NOISE_BYTES: u64 = 64 << 10;
/// A regression with no larger error is a form: whole numbers times lengths.
const FITTED_EXACTLY: f64 = 1e-9;
/// What is added to growth that is not even.
const UNEVEN: f64 = 0.05;
/// Peaks that grow by less than this, from the smallest run to the largest, do not grow.
const GROWS: f64 = 1.25;
/// By how much the volumes of runs must differ to say how peaks grow.
const APART: f64 = 2.0;

impl Law {
    /// How far the bound is short of what its own runs needed, at most: 1 if it is not. Runs that took
    /// another course than the law's are among them.
    pub fn shortfall(&self) -> f64 {
        let short = |run: &super::TrainingRun| {
            let upper = self.fitted_upper(&run.shape)?;
            Some(run.working_peak_bytes.saturating_sub(NOISE_BYTES) as f64 / (upper as f64).max(1.0))
        };
        self.trained_on.iter().filter_map(short).fold(1.0, f64::max)
    }

    /// The bound at a shape, given what the law says; the same where a run has proven it.
    pub(super) fn widened(&self, shape: &Point, upper: u128) -> u128 {
        if confidence(self, shape) != Proof::Unverified {
            return upper;
        }
        let upper = upper.max(whole(upper as f64 * self.short.max(1.0)));
        if !self.rests_on_guesses(shape, NEGLIGIBLE * upper as f64) {
            return upper;
        }
        whole(upper as f64 * (1.0 + MARGIN)).max(self.floor(shape))
    }

    /// True if the peak at a shape depends on what only regressions say, by more than `negligible`
    /// bytes: were these blocks half as large again, it would be another. A block that is gone before
    /// the peak does not matter, nor does a fit without an error.
    pub fn rests_on_fits(&self, shape: &Point, negligible: f64) -> bool {
        let bytes = |size: &Size| size.at(shape).map_or(f64::INFINITY, |bytes| bytes as f64);
        let alike = self.alike_axes();
        let is_guess = |size: &Size| matches!(size, Size::Fitted(fit) if is_guess(fit, &alike));
        let beside = if is_guess(&self.residual) { bytes(&self.residual) } else { 0.0 };
        let Body::Symbolic(sequence) = &self.body else { return true };
        if !sequence.sizes.iter().any(&is_guess) {
            return beside > negligible;
        }
        let larger = |size: &Size| {
            let bytes = size.at(shape)?;
            if is_guess(size) { bytes.checked_add(bytes / 2) } else { Some(bytes) }
        };
        let Some(peak) = sequence.peak(shape) else { return true };
        let at_peak = |(size, count): &(usize, u64)| {
            let size = &sequence.sizes[*size];
            if is_guess(size) { bytes(size) * *count as f64 } else { 0.0 }
        };
        let raised = sequence.peak_of(larger).map_or(f64::INFINITY, |larger| (larger - peak.bytes) as f64);
        raised.max(peak.live.iter().map(at_peak).sum()).max(beside) > negligible
    }

    /// Whether each axis has the same proportion to another one in all runs: n0² then looks like n0·n1.
    fn alike_axes(&self) -> Vec<bool> {
        let axes = self.variables.len();
        let alike = |a: usize, b: usize| {
            let product = |run: &Point, other: &Point| u128::from(run[a]) * u128::from(other[b]);
            let runs = || self.trained_on.iter().map(|run| &run.shape);
            runs().zip(runs().skip(1)).all(|(run, next)| product(run, next) == product(next, run))
        };
        (0..axes).map(|a| (0..axes).any(|b| a != b && alike(a, b))).collect()
    }

    /// True if the peak at a shape rests on a regression, or if runs needed more than the law says.
    /// Where each block that matters has a form there is nothing to miss: of several forms a bound has
    /// the largest. Other data values have a bound of their own.
    fn rests_on_guesses(&self, shape: &Point, negligible: f64) -> bool {
        match &self.body {
            _ if self.worst.is_some() => false,
            _ if self.short > 1.0 => true,
            Body::Regression(fit) => is_guess(fit, &self.alike_axes()),
            Body::Symbolic(_) => self.rests_on_fits(shape, negligible),
        }
    }

    /// What whole runs needed, between them and beyond the largest; 0 below the smallest.
    fn floor(&self, shape: &Point) -> u128 {
        let volume = volume(shape) as f64;
        let runs = || {
            let runs = self.trained_on.iter();
            runs.map(|run| (self::volume(&run.shape) as f64, run.working_peak_bytes.max(1) as f64))
        };
        let below = runs().filter(|run| run.0 <= volume).reduce(larger);
        let above = runs().filter(|run| run.0 >= volume).reduce(smaller);
        let carried_on = match (below, above) {
            (None, _) => return 0,
            (Some(below), Some(above)) => below.1 * (volume / below.0).powf(slope(below, above)),
            (Some(largest), None) => {
                let smallest = runs().reduce(smaller).unwrap_or(largest);
                largest.1 * (volume / largest.0).powf(exponent(smallest, largest))
            }
        };
        whole(carried_on * (1.0 + UNEVEN))
    }
}

/// True for a regression, unless it has no error and no other is like it.
fn is_guess(fit: &Regression, alike_axes: &[bool]) -> bool {
    let mut axes = fit.terms.iter().flat_map(|term| term.powers.iter().zip(alike_axes));
    fit.error > FITTED_EXACTLY || axes.any(|(&power, &alike)| power > 0 && alike)
}

/// Beyond 2^100 bytes nothing is a memory size.
fn whole(bytes: f64) -> u128 {
    if bytes < 2f64.powi(100) { bytes.ceil() as u128 } else { u128::MAX }
}

/// The run of the larger volume; of one volume, that which needed more.
fn larger(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    if b.0 > a.0 || (b.0 == a.0 && b.1 > a.1) { b } else { a }
}

/// The run of the smaller volume; of one volume, that which needed more.
fn smaller(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    if b.0 < a.0 || (b.0 == a.0 && b.1 > a.1) { b } else { a }
}

/// The power of the volume that peaks grow with from one run to another.
fn slope(below: (f64, f64), above: (f64, f64)) -> f64 {
    if above.0 > below.0 { (above.1 / below.1).ln() / (above.0 / below.0).ln() } else { 0.0 }
}

/// The power of the volume that peaks grow with: as from the smallest run to the largest, and with
/// the volume itself at least, since what is constant in small runs hides how the rest grows.
fn exponent(smallest: (f64, f64), largest: (f64, f64)) -> f64 {
    if largest.0 < APART * smallest.0 {
        1.0
    } else if largest.1 < GROWS * smallest.1 {
        0.0
    } else {
        slope(smallest, largest).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{TrainingRun, Variable};
    use crate::stats::regression::Monomial;

    fn law(peaks: &[(u64, u64)]) -> Law {
        let run = |&(length, working_peak_bytes): &(u64, u64)| TrainingRun {
            shape: vec![length],
            working_peak_bytes,
            seconds: 0.0,
        };
        let variable = Variable { name: "n0".into(), min: peaks[0].0, max: peaks[peaks.len() - 1].0 };
        Law { variables: vec![variable], trained_on: peaks.iter().map(run).collect(), ..Law::default() }
    }

    fn close(found: u128, expected: f64) -> bool {
        (found as f64 / expected - 1.0).abs() < 1e-9
    }

    #[test]
    fn what_grew_goes_on_to_grow_with_the_volume_or_faster() {
        let affine = law(&[(100, 1_000_100), (1000, 1_501_000)]);
        assert!(close(affine.floor(&[2000]), 1_501_000.0 * 2.0 * 1.05));
        let square = law(&[(100, 80_000), (1000, 8_000_000)]);
        assert!(close(square.floor(&[2000]), 8_000_000.0 * 4.0 * 1.05));
    }

    #[test]
    fn between_runs_it_lies_between_what_they_needed() {
        let proportional = law(&[(100, 8000), (1000, 80_000)]);
        assert!(close(proportional.floor(&[500]), 40_000.0 * 1.05));
    }

    #[test]
    fn what_did_not_grow_stays_and_runs_speak_for_themselves() {
        let constant = law(&[(100, 5000), (1000, 5100)]);
        assert!(close(constant.floor(&[9000]), 5100.0 * 1.05));
        assert!(close(constant.floor(&[1000]), 5100.0 * 1.05));
        assert_eq!(constant.floor(&[99]), 0);
        assert_eq!(Law::default().floor(&[]), 0);
    }

    #[test]
    fn a_bound_covers_the_runs_that_took_another_course() {
        let mut odd = law(&[(100, 1000), (1000, 4_000_000 + NOISE_BYTES)]);
        odd.residual = Size::Bounded { bytes: 1_000_000 };
        odd.short = odd.shortfall();
        assert_eq!(odd.short, 4.0);
        assert!(odd.bytes(&[1000]).unwrap().working_upper >= 4_000_000 + NOISE_BYTES);
        // Where whole runs say less.
        assert_eq!(odd.bytes(&[100]).unwrap().working_upper, 4_080_000);
    }

    #[test]
    fn a_regression_without_an_error_is_a_guess_where_its_runs_are_all_alike() {
        let term = Monomial { coefficient: 1.0, powers: vec![2, 0], up_to: None };
        let fit = Regression { terms: vec![term], error: 0.0, runs: 3 };
        let with = |shapes: [[u64; 2]; 3]| {
            let run = |shape: [u64; 2]| TrainingRun {
                shape: shape.to_vec(),
                working_peak_bytes: shape[0] * shape[0],
                seconds: 0.0,
            };
            let variable = |name: &str| Variable { name: name.into(), min: 1, max: 9 };
            let trained_on = shapes.map(run).to_vec();
            Law { variables: vec![variable("n0"), variable("n1")], trained_on, ..Law::default() }
        };
        let guess = |shapes| is_guess(&fit, &with(shapes).alike_axes());
        assert!(guess([[10, 10], [20, 20], [40, 40]]));
        assert!(guess([[10, 20], [20, 40], [30, 60]]));
        assert!(!guess([[10, 20], [20, 15], [30, 60]]));
    }

    #[test]
    fn a_shape_beyond_any_memory_has_a_floor_too() {
        assert_eq!(law(&[(1, 1 << 40), (1 << 20, 1 << 63)]).floor(&[u64::MAX]), u128::MAX);
    }
}
