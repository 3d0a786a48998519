//! A network of one hidden layer: numbers of an object in, a logit out.

use serde::{Deserialize, Serialize};

use super::features::FEATURES;
use crate::stats::random::Random;

const HIDDEN: usize = 16;
const HIDDEN_WEIGHTS: usize = HIDDEN * (FEATURES + 1);
/// Weights and biases of the hidden layer, then of the logit.
const WEIGHTS: usize = HIDDEN_WEIGHTS + HIDDEN + 1;

/// Its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct Network(Vec<f64>);

impl TryFrom<Vec<f64>> for Network {
    type Error = String;

    fn try_from(weights: Vec<f64>) -> Result<Network, String> {
        match weights.len() {
            WEIGHTS => Ok(Network(weights)),
            other => Err(format!("the policy has {WEIGHTS} weights, not {other}")),
        }
    }
}

impl From<Network> for Vec<f64> {
    fn from(network: Network) -> Vec<f64> {
        network.0
    }
}

impl Network {
    /// Random weights (Glorot and Bengio 2010).
    pub fn drawn(random: &mut Random) -> Network {
        let spread = (2.0 / (FEATURES + HIDDEN) as f64).sqrt();
        Network((0..WEIGHTS).map(|_| spread * random.normal()).collect())
    }

    /// A gradient of zeros.
    pub fn no_gradient(&self) -> Vec<f64> {
        vec![0.0; WEIGHTS]
    }

    /// The weights.
    pub fn weights(&mut self) -> &mut [f64] {
        &mut self.0
    }

    /// The logit of an object.
    pub fn logit(&self, features: &[f64; FEATURES]) -> f64 {
        self.output(&self.hidden(features))
    }

    fn hidden(&self, features: &[f64; FEATURES]) -> [f64; HIDDEN] {
        std::array::from_fn(|unit| {
            let weights = &self.0[unit * (FEATURES + 1)..][..=FEATURES];
            let sum: f64 = weights.iter().zip(features).map(|(weight, feature)| weight * feature).sum();
            (sum + weights[FEATURES]).tanh()
        })
    }

    fn output(&self, hidden: &[f64; HIDDEN]) -> f64 {
        let weights = &self.0[HIDDEN_WEIGHTS..];
        weights.iter().zip(hidden).map(|(weight, unit)| weight * unit).sum::<f64>() + weights[HIDDEN]
    }

    /// Adds to a gradient what a loss has whose derivative by the logit is known.
    pub fn add_gradient(
        &self,
        features: &[f64; FEATURES],
        by_logit: impl Fn(f64) -> f64,
        gradient: &mut [f64],
    ) {
        let hidden = self.hidden(features);
        let by_logit = by_logit(self.output(&hidden));
        let (below, above) = gradient.split_at_mut(HIDDEN_WEIGHTS);
        for (unit, value) in hidden.iter().enumerate() {
            above[unit] += by_logit * value;
            let by_sum = by_logit * self.0[HIDDEN_WEIGHTS + unit] * (1.0 - value * value);
            let of_unit = &mut below[unit * (FEATURES + 1)..][..=FEATURES];
            of_unit.iter_mut().zip(features).for_each(|(sum, feature)| *sum += by_sum * feature);
            of_unit[FEATURES] += by_sum;
        }
        above[HIDDEN] += by_logit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_that_of_differences() {
        let mut random = Random::seeded(3);
        let mut network = Network::drawn(&mut random);
        let features = std::array::from_fn(|_| random.normal());
        let mut gradient = network.no_gradient();
        network.add_gradient(&features, |_| 1.0, &mut gradient);
        for (at, by_weight) in gradient.iter().enumerate() {
            let mut logit_at = |change: f64| {
                network.weights()[at] += change;
                let logit = network.logit(&features);
                network.weights()[at] -= change;
                logit
            };
            let difference = (logit_at(1e-5) - logit_at(-1e-5)) / 2e-5;
            assert!((difference - by_weight).abs() < 1e-6, "{at}: {difference} {}", by_weight);
        }
    }

    #[test]
    fn weights_of_another_network_are_refused() {
        assert!(serde_json::from_str::<Network>("[1.0, 2.0]").unwrap_err().to_string().contains("weights"));
    }
}
