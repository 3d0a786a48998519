//! Training: the network is to say of each object how likely the exact choice has it in the fast tier.

use std::time::Duration;

use super::features::{FEATURES, features};
use super::network::Network;
use crate::placement::search::exact;
use crate::placement::search::instance::Instance;
use crate::stats::random::Random;

/// For the exact choice of an instance: what is left open then is worth next to nothing.
const PATIENCE: Duration = Duration::from_millis(50);
const ROUNDS: i32 = 300;
const RATE: f64 = 0.01;
/// Weights that say nothing go to zero: a share of each, every round.
const DECAY: f64 = 0.01;
/// Adam (Kingma and Ba 2015): how much of the mean gradient, and of its square, is kept.
const KEPT: (f64, f64) = (0.9, 0.999);

/// An object, and what it should be.
struct Example {
    features: [f64; FEATURES],
    is_fast: bool,
    /// What a mistake costs.
    weight: f64,
}

/// A network that makes the exact choices of these instances as well as it can.
pub fn trained(instances: &[Instance], seed: u64) -> Network {
    let examples: Vec<Example> = instances.iter().flat_map(examples).collect();
    let all: f64 = examples.iter().map(|example| example.weight).sum();
    let mut network = Network::drawn(&mut Random::seeded(seed));
    let mut means = vec![(0.0, 0.0); network.no_gradient().len()];
    for round in 1..=ROUNDS {
        let mut gradient = network.no_gradient();
        for Example { features, is_fast, weight } in &examples {
            let wanted = f64::from(u8::from(*is_fast));
            let error = |logit: f64| weight / all * (1.0 / (1.0 + (-logit).exp()) - wanted);
            network.add_gradient(features, error, &mut gradient);
        }
        let rate = RATE * (1.0 - f64::from(round - 1) / f64::from(ROUNDS));
        for ((weight, mean), gradient) in network.weights().iter_mut().zip(&mut means).zip(gradient) {
            mean.0 += (1.0 - KEPT.0) * (gradient - mean.0);
            mean.1 += (1.0 - KEPT.1) * (gradient * gradient - mean.1);
            let (first, second) = (mean.0 / (1.0 - KEPT.0.powi(round)), mean.1 / (1.0 - KEPT.1.powi(round)));
            *weight -= rate * (first / (second.sqrt() + 1e-8) + DECAY * *weight);
        }
    }
    network
}

/// The objects of an instance. All instances count the same, and of each an object by its gain, and by
/// its bytes, which others could use.
fn examples(instance: &Instance) -> Vec<Example> {
    let chosen = exact::best_within(&instance.items, &instance.together, instance.capacity, PATIENCE).fast;
    let gains: f64 = instance.items.iter().map(|item| item.gain.max(0.0)).sum();
    let bytes: f64 = instance.items.iter().map(|item| item.bytes as f64).sum();
    let weight = |item: usize| {
        let item = instance.items[item];
        item.gain.max(0.0) / gains.max(f64::MIN_POSITIVE) + item.bytes as f64 / bytes.max(1.0)
    };
    let of = |(item, features)| Example { features, is_fast: chosen[item], weight: weight(item) };
    features(instance).into_iter().enumerate().map(of).collect()
}
