//! What a law has learned since it was fitted: a posterior over its scale and offset, or over the
//! terms of a regression.
//!
//! Rows are relative: parts of the law's prediction f over f, the response (measured − f)/f. So
//! errors of small and of large shapes have the same weight, as they do in the fit, and a weight of
//! 0 means that the law is right. The parts are the terms of a regression, else f itself (the
//! scale), and a constant of the size of a training run (the offset).

use super::law::{Law, Learned};
use super::parts::{Body, Proof, Seconds};
use super::task_bytes::TaskBytes;
use crate::shape::{Point, volume};
use crate::stats::posterior::{Posterior, Prior};

/// Weights are believed to lie within this many times the law's error.
const WEIGHTS_PER_ERROR: f64 = 2.0;
/// The prior counts as twice this many observations.
const PRIOR_SHAPE: f64 = 2.0;
/// The bound that predictions give is stayed below with this probability.
const UPPER: f64 = 0.95;
/// Smallest error a law is believed to have: no block below 4 KiB is in it.
const LEAST_ERROR: f64 = 1e-4;
/// Error of a symbolic law whose proof says nothing narrower.
const UNVERIFIED_ERROR: f64 = 0.05;
/// Relative error of times, which depend on what else the machine does.
const SECONDS_ERROR: f64 = 0.3;
/// The offset of times, seconds, and what a cell takes where the runs say nothing.
const SECONDS_OFFSET: f64 = 1e-3;
const CELL_SECONDS: f64 = 5e-9;

impl Learned {
    /// Takes in a call at a shape that needed `bytes`, against what the law says by itself.
    pub fn add_bytes(&mut self, law: &Law, shape: &Point, predicted: f64, bytes: f64) {
        self.bytes.add(&row(law, shape, predicted), (bytes - predicted) / predicted.max(1.0));
        self.largest_volume = self.largest_volume.max(volume(shape) as f64);
    }

    /// Takes in a call's time.
    pub fn add_seconds(&mut self, law: &Law, shape: &Point, seconds: f64) {
        let predicted = prior_seconds(&law.seconds, shape);
        self.seconds.add(&seconds_row(predicted), (seconds - predicted) / predicted);
    }

    /// Expected bytes where the law says `predicted`, and what they stay below with each of the
    /// probabilities; `None` before any observation.
    pub fn bytes_at(
        &self,
        law: &Law,
        shape: &Point,
        predicted: f64,
        probabilities: &[f64],
    ) -> Option<(f64, Vec<f64>)> {
        if self.bytes.count == 0 {
            return None;
        }
        let posterior = Posterior::of(&prior(law), &self.bytes)?;
        let row = row(law, shape, predicted);
        let bytes = |relative: f64| (predicted * (1.0 + relative)).max(0.0);
        let quantile = |&p: &f64| bytes(posterior.quantile(&row, 1.0, p));
        Some((bytes(posterior.at(&row)), probabilities.iter().map(quantile).collect()))
    }

    /// What a law says, `plain`, with what was observed: seconds always, bytes unless it is exact.
    pub fn applied(&self, law: &Law, shape: &Point, plain: TaskBytes) -> TaskBytes {
        let plain = TaskBytes { seconds: self.seconds_at(law, shape).unwrap_or(plain.seconds), ..plain };
        if matches!(law.proof, Proof::Exact { .. }) {
            return plain;
        }
        let Some((expected, quantiles)) = self.bytes_at(law, shape, plain.working as f64, &[UPPER]) else {
            return plain;
        };
        let working = expected.ceil() as u64;
        // Beyond what was observed the law's own bound still counts: it knows of forms that the
        // runs do not distinguish.
        let beyond = volume(shape) as f64 > self.largest_volume;
        let own = if beyond { plain.working_upper } else { 0 };
        let upper = quantiles.iter().fold(0.0, |a: f64, &b| a.max(b)).ceil() as u64;
        TaskBytes { working, working_upper: upper.max(own).max(working), ..plain }
    }

    /// Expected seconds; `None` before any observation.
    pub fn seconds_at(&self, law: &Law, shape: &Point) -> Option<f64> {
        if self.seconds.count == 0 {
            return None;
        }
        let posterior = Posterior::of(&prior_of(SECONDS_ERROR, 2), &self.seconds)?;
        let predicted = prior_seconds(&law.seconds, shape);
        Some((predicted * (1.0 + posterior.at(&seconds_row(predicted)))).max(0.0))
    }

    /// True for sums that observations of the law can have left.
    pub fn fits(&self, law: &Law) -> bool {
        let dims = prior(law).precision.len();
        self.bytes.fits(dims) && self.seconds.fits(2) && self.largest_volume >= 0.0
    }
}

/// The parts of a prediction over the prediction itself.
fn row(law: &Law, shape: &Point, predicted: f64) -> Vec<f64> {
    let unit = law.trained_on.iter().map(|run| run.working_peak_bytes).max().unwrap_or(0).max(1 << 12);
    let scale = predicted.max(1.0);
    let parts = match &law.body {
        Body::Symbolic(_) => vec![predicted],
        Body::Regression(regression) => {
            let power = |(&power, &n): (&u8, &u64)| (n as f64).powi(i32::from(power));
            let terms = regression.terms.iter();
            terms.map(|t| t.coefficient * t.powers.iter().zip(shape).map(power).product::<f64>()).collect()
        }
    };
    parts.into_iter().chain([unit as f64]).map(|part| part / scale).collect()
}

fn prior(law: &Law) -> Prior {
    let parts = match &law.body {
        Body::Symbolic(_) => 1,
        Body::Regression(regression) => regression.terms.len(),
    };
    prior_of(error(law), parts + 1)
}

fn prior_of(error: f64, parts: usize) -> Prior {
    Prior::new(error, PRIOR_SHAPE, &vec![WEIGHTS_PER_ERROR * error; parts])
}

/// Relative error that the law is believed to have before anything is observed.
fn error(law: &Law) -> f64 {
    let error = match (&law.body, &law.proof) {
        (Body::Regression(regression), _) => regression.error,
        (_, Proof::Exact { error, .. } | Proof::WorstCase { error, .. }) => error.abs(),
        (_, Proof::Calibrated { .. } | Proof::Unverified) => UNVERIFIED_ERROR,
    };
    error.clamp(LEAST_ERROR, 1.0)
}

fn prior_seconds(seconds: &Seconds, shape: &Point) -> f64 {
    let cells = volume(shape) as f64;
    let fitted = seconds.at(cells);
    if fitted > 0.0 { fitted } else { SECONDS_OFFSET + CELL_SECONDS * cells }
}

fn seconds_row(predicted: f64) -> [f64; 2] {
    [1.0, SECONDS_OFFSET / predicted]
}
