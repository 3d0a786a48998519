//! Seconds of a task by its block, and by its chunk shape's own departure from that.
//!
//! A Bayesian regression ([`crate::stats::posterior`]) over 1, surface, volume and volume^(4/3) of
//! the block, and one column for each chunk shape that was tried: y = x·w + d·y, d the shape's own
//! relative departure (strides and lengths that suit a cache or a transform, or do not). The
//! volume's 4/3 stands for costs per cell that grow as blocks leave the caches. Rows are divided by
//! y, so that errors are relative and a call that was delayed by something else has little weight.

use std::collections::BTreeMap;

use crate::stats::posterior::{Evidence, Posterior, Prior};
use crate::stats::random::Random;

/// Relative noise as first believed, and how firmly (half observations).
const NOISE: f64 = 0.2;
const FIRM: f64 = 1.5;
/// How much of the first task's seconds each part may by itself explain.
const PARTS: [f64; 4] = [1.0, 0.5, 1.0, 0.1];
/// Relative departure of a chunk shape from the regression.
const OWN: f64 = 0.07;
/// No draw makes a cell faster than this part of the fastest so far.
const FASTEST: f64 = 0.1;

/// 1, half the surface, the volume of a block, and its power 4/3.
pub(super) type Parts = [f64; 4];

pub(super) fn parts(block: &[u64]) -> Parts {
    let volume: f64 = block.iter().map(|&n| n as f64).product();
    [1.0, block.iter().map(|&n| volume / n as f64).sum(), volume, volume.powf(4.0 / 3.0)]
}

/// What tasks took.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    /// Parts and seconds of the first task: the units of the rest.
    first: Option<(Parts, f64)>,
    tried: BTreeMap<usize, Tried>,
    /// Seconds per cell of the fastest task.
    fastest_cell: f64,
}

/// Tasks of one chunk shape.
#[derive(Debug, Clone)]
struct Tried {
    /// In units of the first task.
    parts: Parts,
    tasks: u64,
    /// Σ (first task's seconds over this one's), and Σ of its squares.
    rates: f64,
    rate_squares: f64,
}

impl Times {
    /// A task of a candidate (any number that is its own) took so long.
    pub(super) fn add(&mut self, candidate: usize, parts: &Parts, seconds: f64) {
        if !seconds.is_finite() {
            return;
        }
        let (unit, first) = *self.first.get_or_insert((*parts, seconds));
        let cell = seconds / parts[2];
        self.fastest_cell = if self.tried.is_empty() { cell } else { self.fastest_cell.min(cell) };
        let tried = self.tried.entry(candidate).or_insert_with(|| Tried {
            parts: std::array::from_fn(|part| parts[part] / unit[part]),
            tasks: 0,
            rates: 0.0,
            rate_squares: 0.0,
        });
        tried.tasks += 1;
        tried.rates += first / seconds;
        tried.rate_squares += (first / seconds).powi(2);
    }

    /// What these tasks say; `None` before any.
    pub(super) fn fitted(&self) -> Option<Fitted<'_>> {
        let (unit, first) = self.first?;
        let deviations: Vec<f64> = PARTS.into_iter().chain(self.tried.values().map(|_| OWN)).collect();
        let posterior = Posterior::of(&Prior::new(NOISE, FIRM, &deviations), &self.evidence())?;
        Some(Fitted { times: self, unit, first, posterior })
    }

    /// The sums over rows (parts over seconds, 1 for the task's own shape) with response 1.
    fn evidence(&self) -> Evidence {
        let dims = PARTS.len() + self.tried.len();
        let mut evidence =
            Evidence { products: vec![0.0; dims * dims], responses: vec![0.0; dims], ..Evidence::default() };
        for (own, tried) in (PARTS.len()..).zip(self.tried.values()) {
            for (i, a) in tried.parts.iter().enumerate() {
                for (j, b) in tried.parts.iter().enumerate() {
                    evidence.products[i * dims + j] += a * b * tried.rate_squares;
                }
                evidence.products[i * dims + own] = a * tried.rates;
                evidence.products[own * dims + i] = a * tried.rates;
                evidence.responses[i] += a * tried.rates;
            }
            evidence.products[own * dims + own] = tried.tasks as f64;
            evidence.responses[own] = tried.tasks as f64;
            evidence.squares += tried.tasks as f64;
            evidence.count += tried.tasks;
        }
        evidence
    }
}

/// A posterior of the seconds.
#[derive(Debug, Clone)]
pub(super) struct Fitted<'a> {
    times: &'a Times,
    unit: Parts,
    first: f64,
    posterior: Posterior,
}

impl Fitted<'_> {
    /// Weights as they may be, for [`Fitted::drawn`].
    pub(super) fn sample(&self, random: &mut Random) -> Vec<f64> {
        self.posterior.sample(random)
    }

    /// Seconds of a task by a sample; `own` standard deviations are the departure of a shape that
    /// was not tried.
    pub(super) fn drawn(&self, candidate: usize, parts: &Parts, sample: &[f64], own: f64) -> f64 {
        let departure = self.column(candidate).map_or(own * OWN, |column| sample[column]);
        self.first * self.by_parts(parts, sample) * departure.exp()
    }

    /// Seconds that are expected of a task.
    pub(super) fn expected(&self, candidate: usize, parts: &Parts) -> f64 {
        self.first * self.posterior.at(&self.row(candidate, parts))
    }

    /// Seconds that the mean of a shape's tasks stays below with this probability.
    pub(super) fn below(&self, candidate: usize, parts: &Parts, probability: f64) -> f64 {
        let row = self.row(candidate, parts);
        let unknown = if self.column(candidate).is_some() { 0.0 } else { OWN / NOISE };
        let noise = unknown * self.by_parts(parts, &self.posterior.mean);
        self.first * self.posterior.quantile(&row, noise, probability)
    }

    /// Of a candidate's new task, so that row · weights are its seconds over the first one's.
    fn row(&self, candidate: usize, parts: &Parts) -> Vec<f64> {
        let mut row = vec![0.0; self.posterior.mean.len()];
        (0..PARTS.len()).for_each(|part| row[part] = parts[part] / self.unit[part]);
        if let Some(column) = self.column(candidate) {
            row[column] = self.by_parts(parts, &self.posterior.mean);
        }
        row
    }

    fn column(&self, candidate: usize) -> Option<usize> {
        let at = self.times.tried.keys().position(|&tried| tried == candidate)?;
        Some(PARTS.len() + at)
    }

    /// What the block's parts say, over the first task's seconds.
    fn by_parts(&self, parts: &Parts, weights: &[f64]) -> f64 {
        let sum: f64 = parts.iter().zip(&self.unit).zip(weights).map(|((own, unit), w)| own / unit * w).sum();
        sum.max(FASTEST * self.times.fastest_cell * parts[2] / self.first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(tasks: &[([u64; 2], f64)]) -> Times {
        let mut times = Times::default();
        for (block, seconds) in tasks {
            times.add((block[0] * 1000 + block[1]) as usize, &parts(block), *seconds);
        }
        times
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_rows(tasks in prop::collection::vec(
            ((10u64..14, 20u64..22).prop_map(|(a, b)| [a, b]), 0.01..10.0f64), 1..20,
        )) {
            let found = times(&tasks);
            let (unit, first) = found.first.unwrap();
            let mut wanted = Evidence::default();
            for (block, seconds) in &tasks {
                let scale = first / seconds;
                let mut row: Vec<f64> = parts(block).iter().zip(unit).map(|(a, b)| a / b * scale).collect();
                let own = |&at: &usize| f64::from(u8::from(at == (block[0] * 1000 + block[1]) as usize));
                row.extend(found.tried.keys().map(own));
                wanted.add(&row, 1.0);
            }
            let found = found.evidence();
            prop_assert_eq!(found.count, wanted.count);
            for (a, b) in found.products.iter().zip(&wanted.products) {
                prop_assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} {b}");
            }
            for (a, b) in found.responses.iter().zip(&wanted.responses) {
                prop_assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} {b}");
            }
        }
    }

    #[test]
    fn a_shape_that_is_slow_makes_no_other_slow() {
        let seconds = |block: &[u64; 2]| 1e-6 * (block[0] * block[1]) as f64;
        let slow = [64, 64];
        let mut tasks: Vec<([u64; 2], f64)> = Vec::new();
        for block in [[20, 30], [40, 50], [64, 60], [60, 66]] {
            tasks.extend([(block, seconds(&block)); 4]);
        }
        tasks.extend([(slow, 1.4 * seconds(&slow)); 4]);
        let times = times(&tasks);
        let fitted = times.fitted().unwrap();
        let ratio = |block: [u64; 2]| {
            let candidate = (block[0] * 1000 + block[1]) as usize;
            fitted.expected(candidate, &parts(&block)) / seconds(&block)
        };
        assert!(ratio(slow) > 1.1, "{}", ratio(slow));
        assert!(ratio([64, 60]) < 1.08, "{}", ratio([64, 60]));
        let (near, known) = ([62, 66], [60, 66]);
        let unsure = |block: [u64; 2]| {
            let candidate = (block[0] * 1000 + block[1]) as usize;
            fitted.below(candidate, &parts(&block), 0.75) / fitted.expected(candidate, &parts(&block))
        };
        assert!(unsure(near) > unsure(known), "{} {}", unsure(near), unsure(known));
    }

    #[test]
    fn a_time_that_is_none_says_nothing() {
        assert!(times(&[([10, 10], f64::INFINITY), ([10, 20], f64::NAN)]).fitted().is_none());
    }
}
