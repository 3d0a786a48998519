//! Bayesian linear regression with unknown noise: a normal–inverse-gamma posterior.
//!
//! With rows x, responses y = x·w + ε, ε ~ N(0, σ²), and the conjugate prior
//! w | σ² ~ N(0, σ²·Λ₀⁻¹), σ² ~ IG(a₀, b₀), the posterior after rows X is of the same kind
//! (Murphy, Machine Learning: A Probabilistic Perspective, 2012, §7.6.3; Bishop, Pattern
//! Recognition and Machine Learning, 2006, §3.3 and exercise 3.12):
//!
//! ```text
//! Λ = Λ₀ + XᵀX      m = Λ⁻¹·Xᵀy      a = a₀ + n/2      b = b₀ + (yᵀy − mᵀΛm)/2
//! ```
//!
//! and a new response at x is Student's t with 2a degrees of freedom, location x·m and squared
//! scale (b/a)·(1 + xᵀΛ⁻¹x). Only XᵀX, Xᵀy, yᵀy and n are kept: they add up in any order.

use serde::{Deserialize, Serialize};

use super::random::Random;
use super::student;

/// What rows and responses leave behind: sums, so that evidence of several workers can be added.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Rows seen.
    pub count: u64,
    /// XᵀX, row by row.
    pub products: Vec<f64>,
    /// Xᵀy.
    pub responses: Vec<f64>,
    /// yᵀy.
    pub squares: f64,
}

impl Evidence {
    /// Takes in a row. One of another length than those before, or one that is not finite, is
    /// left out.
    pub fn add(&mut self, row: &[f64], response: f64) {
        if self.responses.is_empty() {
            self.products = vec![0.0; row.len() * row.len()];
            self.responses = vec![0.0; row.len()];
        }
        let finite = row.iter().chain([&response]).all(|number| number.is_finite());
        if row.len() != self.responses.len() || !finite {
            return;
        }
        let dims = row.len();
        for (i, a) in row.iter().enumerate() {
            row.iter().enumerate().for_each(|(j, b)| self.products[i * dims + j] += a * b);
            self.responses[i] += a * response;
        }
        self.squares += response * response;
        self.count += 1;
    }

    /// True for sums that rows of this length can have.
    pub fn fits(&self, dims: usize) -> bool {
        let numbers = || self.products.iter().chain(&self.responses);
        let empty = self.count == 0 && self.responses.is_empty();
        let sized = self.responses.len() == dims && self.products.len() == dims * dims;
        let diagonal = || (0..dims).all(|i| self.products[i * dims + i] >= 0.0);
        empty
            || sized
                && numbers().all(|number| number.is_finite())
                && self.squares.is_finite()
                && self.squares >= 0.0
                && diagonal()
    }
}

/// What is believed before any row.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    /// Diagonal of Λ₀: how many rows of unit length each weight's prior counts as.
    pub precision: Vec<f64>,
    /// a₀, a multiple of ½.
    pub shape: f64,
    /// b₀; b₀/a₀ is the variance of the noise as believed.
    pub rate: f64,
}

impl Prior {
    /// Noise of this standard deviation, believed as firmly as `2·shape` observations; weights of
    /// these standard deviations.
    pub fn new(noise: f64, shape: f64, deviations: &[f64]) -> Prior {
        let precision = deviations.iter().map(|deviation| (noise / deviation).powi(2)).collect();
        Prior { precision, shape, rate: shape * noise * noise }
    }
}

/// What is believed after some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Posterior {
    /// Expected weights m.
    pub mean: Vec<f64>,
    /// Λ⁻¹, row by row.
    pub covariance: Vec<f64>,
    /// Lower Cholesky factor of Λ⁻¹.
    factor: Vec<f64>,
    /// a
    pub shape: f64,
    /// b
    pub rate: f64,
}

impl Posterior {
    /// `None` where the sums are none that rows can have.
    pub fn of(prior: &Prior, evidence: &Evidence) -> Option<Posterior> {
        let dims = prior.precision.len();
        if !evidence.fits(dims) {
            return None;
        }
        let at = |numbers: &[f64], index: usize| numbers.get(index).copied().unwrap_or(0.0);
        let mut precision: Vec<f64> = (0..dims * dims).map(|index| at(&evidence.products, index)).collect();
        prior.precision.iter().enumerate().for_each(|(i, own)| precision[i * dims + i] += own);
        let covariance = inverse(&precision, dims)?;
        let row = |i: usize| &covariance[i * dims..(i + 1) * dims];
        let mean: Vec<f64> =
            (0..dims).map(|i| (0..dims).map(|j| row(i)[j] * at(&evidence.responses, j)).sum()).collect();
        // mᵀΛm = mᵀXᵀy; never below zero but by rounding.
        let explained: f64 = mean.iter().enumerate().map(|(j, m)| m * at(&evidence.responses, j)).sum();
        Some(Posterior {
            factor: cholesky(&covariance, dims)?,
            shape: prior.shape + evidence.count as f64 / 2.0,
            rate: prior.rate + (evidence.squares - explained).max(0.0) / 2.0,
            mean,
            covariance,
        })
    }

    /// Expected response at a row.
    pub fn at(&self, row: &[f64]) -> f64 {
        row.iter().zip(&self.mean).map(|(x, m)| x * m).sum()
    }

    /// What a new response at a row stays below with this probability, if its noise is `noise`
    /// times that of a row.
    pub fn quantile(&self, row: &[f64], noise: f64, probability: f64) -> f64 {
        let dims = row.len();
        let spread: f64 = (0..dims)
            .map(|i| (0..dims).map(|j| row[i] * self.covariance[i * dims + j] * row[j]).sum::<f64>())
            .sum();
        let scale = (self.rate / self.shape * (noise * noise + spread.max(0.0))).sqrt();
        self.at(row) + student::quantile(probability, self.freedom()) * scale
    }

    /// Weights as they may be: σ² from its inverse gamma, w from its normal given σ².
    pub fn sample(&self, random: &mut Random) -> Vec<f64> {
        let dims = self.mean.len();
        // Many degrees of freedom say σ² closely enough without drawing each.
        let freedom = self.freedom().min(200);
        let spread = 2.0 * self.rate * (f64::from(freedom) / (2.0 * self.shape));
        let sigma = (spread / random.chi_square(freedom).max(1e-9)).sqrt();
        let normals: Vec<f64> = (0..dims).map(|_| random.normal()).collect();
        let departure = |i: usize| (0..=i).map(|j| self.factor[i * dims + j] * normals[j]).sum::<f64>();
        (0..dims).map(|i| self.mean[i] + sigma * departure(i)).collect()
    }

    fn freedom(&self) -> u32 {
        (2.0 * self.shape).round().clamp(1.0, f64::from(u32::MAX)) as u32
    }
}

/// L with L·Lᵀ = matrix; `None` if that is not positive definite.
fn cholesky(matrix: &[f64], dims: usize) -> Option<Vec<f64>> {
    let mut factor = vec![0.0; dims * dims];
    for i in 0..dims {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| factor[i * dims + k] * factor[j * dims + k]).sum();
            let rest = matrix[i * dims + j] - known;
            factor[i * dims + j] = if i == j { rest.sqrt() } else { rest / factor[j * dims + j] };
        }
        // NaN fails this too.
        if !(factor[i * dims + i] > 0.0 && factor[i * dims + i].is_finite()) {
            return None;
        }
    }
    Some(factor)
}

/// The inverse of a positive definite matrix, scaled to a unit diagonal on the way: weights of
/// bytes and of bytes per cell differ by many orders of magnitude.
fn inverse(matrix: &[f64], dims: usize) -> Option<Vec<f64>> {
    let scale: Vec<f64> = (0..dims).map(|i| matrix[i * dims + i].sqrt()).collect();
    let scaled: Vec<f64> =
        (0..dims * dims).map(|at| matrix[at] / (scale[at / dims] * scale[at % dims])).collect();
    let factor = cholesky(&scaled, dims)?;
    let mut result = vec![0.0; dims * dims];
    for column in 0..dims {
        let mut solution = vec![0.0; dims];
        for i in 0..dims {
            let known: f64 = (0..i).map(|k| factor[i * dims + k] * solution[k]).sum();
            solution[i] = (f64::from(u8::from(i == column)) - known) / factor[i * dims + i];
        }
        for i in (0..dims).rev() {
            let known: f64 = (i + 1..dims).map(|k| factor[k * dims + i] * solution[k]).sum();
            solution[i] = (solution[i] - known) / factor[i * dims + i];
        }
        (0..dims).for_each(|i| result[i * dims + column] = solution[i] / (scale[i] * scale[column]));
    }
    // Rounding must not leave it lopsided: its own factor is needed.
    let mirrored = |at: usize| (result[at] + result[at % dims * dims + at / dims]) / 2.0;
    Some((0..dims * dims).map(mirrored).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Updates one row at a time, each posterior the prior of the next, by the rank-one formulas
    /// (Sherman–Morrison): nothing in common with the sums above.
    fn one_at_a_time(prior: &Prior, rows: &[(Vec<f64>, f64)]) -> (Vec<f64>, f64, f64) {
        let dims = prior.precision.len();
        let mut covariance = vec![vec![0.0; dims]; dims];
        prior.precision.iter().enumerate().for_each(|(i, own)| covariance[i][i] = 1.0 / own);
        let (mut mean, mut shape, mut rate) = (vec![0.0; dims], prior.shape, prior.rate);
        for (x, y) in rows {
            let gain: Vec<f64> =
                covariance.iter().map(|row| row.iter().zip(x).map(|(c, x)| c * x).sum()).collect();
            let spread = 1.0 + gain.iter().zip(x).map(|(g, x)| g * x).sum::<f64>();
            let surprise = y - mean.iter().zip(x).map(|(m, x)| m * x).sum::<f64>();
            for i in 0..dims {
                mean[i] += gain[i] * surprise / spread;
                (0..dims).for_each(|j| covariance[i][j] -= gain[i] * gain[j] / spread);
            }
            shape += 0.5;
            rate += surprise * surprise / spread / 2.0;
        }
        (mean, shape, rate)
    }

    proptest! {
        #[test]
        fn sums_give_the_posterior_of_one_row_at_a_time(
            rows in prop::collection::vec((prop::collection::vec(-3.0..3.0f64, 3), -5.0..5.0f64), 0..40),
            noise in 0.01..2.0f64,
        ) {
            let prior = Prior::new(noise, 2.0, &[0.5, 2.0, 1.0]);
            let mut evidence = Evidence::default();
            rows.iter().for_each(|(row, response)| evidence.add(row, *response));
            let found = Posterior::of(&prior, &evidence).unwrap();
            let (mean, shape, rate) = one_at_a_time(&prior, &rows);
            for (a, b) in found.mean.iter().zip(&mean) {
                prop_assert!((a - b).abs() < 1e-6 * (1.0 + b.abs()), "{a} {b}");
            }
            prop_assert_eq!(found.shape, shape);
            prop_assert!((found.rate - rate).abs() < 1e-6 * rate, "{} {}", found.rate, rate);
        }
    }

    #[test]
    fn bounds_hold_as_often_as_they_say() {
        let mut random = Random::seeded(11);
        let prior = Prior::new(0.1, 1.0, &[3.0, 3.0]);
        let (mut within, trials) = (0, 2_000);
        for _ in 0..trials {
            let weights = [3.0 * random.normal(), 3.0 * random.normal()];
            let sigma = (2.0 * prior.rate / random.chi_square(2)).sqrt();
            // The prior of the weights is in units of the noise.
            let weights = weights.map(|weight| weight * sigma / 0.1);
            let mut respond =
                |row: &[f64; 2]| row[0] * weights[0] + row[1] * weights[1] + sigma * random.normal();
            let mut evidence = Evidence::default();
            for x in [0.5, 1.0, 2.0] {
                evidence.add(&[1.0, x], respond(&[1.0, x]));
            }
            let new = [1.0, 4.0];
            let bound = Posterior::of(&prior, &evidence).unwrap().quantile(&new, 1.0, 0.9);
            within += u32::from(respond(&new) <= bound);
        }
        let share = f64::from(within) / f64::from(trials);
        assert!((share - 0.9).abs() < 0.025, "{share}");
    }

    #[test]
    fn samples_have_the_posterior_s_mean() {
        let prior = Prior::new(0.3, 2.0, &[2.0, 2.0]);
        let mut evidence = Evidence::default();
        [0.0, 1.0, 2.0, 3.0].iter().for_each(|&x| evidence.add(&[1.0, x], 2.0 + 3.0 * x));
        let posterior = Posterior::of(&prior, &evidence).unwrap();
        let mut random = Random::seeded(3);
        let samples: Vec<Vec<f64>> = (0..4_000).map(|_| posterior.sample(&mut random)).collect();
        for (i, mean) in posterior.mean.iter().enumerate() {
            let found = samples.iter().map(|sample| sample[i]).sum::<f64>() / 4e3;
            assert!((found - mean).abs() < 0.02, "{found} {mean}");
        }
    }

    #[test]
    fn sums_that_no_rows_have_give_no_posterior() {
        let prior = Prior::new(1.0, 1.0, &[1.0, 1.0]);
        let sums =
            |products: Vec<f64>, squares| Evidence { count: 1, products, responses: vec![0.0; 2], squares };
        for evidence in [
            sums(vec![1.0], 0.0),
            sums(vec![f64::NAN; 4], 0.0),
            sums(vec![1.0; 4], -1.0),
            sums(vec![1.0, 50.0, 50.0, 1.0], 0.0),
        ] {
            assert_eq!(Posterior::of(&prior, &evidence), None, "{evidence:?}");
        }
    }
}
