//! Searches for the choice of objects that gains most in the fast tier.
//!
//! An [`instance`] has the objects, and which of them are live together. The [`exact`] choice is the
//! default. Beside it are those that others have published, and that programs are compared by: choices that
//! [`evolve`], a [`policy`] that was trained on other programs, and the best of random ones. A
//! [`baseline`] fills the fast tier without any estimate. With a tier between the two, the choice is one of
//! [`three`].

mod baseline;
mod evolve;
mod exact;
mod instance;
mod policy;
#[cfg(test)]
mod tests;
mod three;

use serde::{Deserialize, Serialize};

pub use baseline::Baseline;
pub use evolve::evolved;
pub use exact::{Choice, PATIENCE, best, best_within};
pub use instance::{Filling, Instance, Item, Traits};
pub use policy::Network;
pub use three::{InThree, best_of_three};

use crate::stats::random::Random;

/// Choices that a search tries where it tries some.
const EVALUATIONS: usize = 300;
/// The same choice each time.
pub(super) const SEED: u64 = 2022;

/// How a choice is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// The best one, by branch and bound.
    Exact,
    /// The best of 300 that evolve.
    Evolve,
    /// That of a small network, trained on other programs, which knows no gains.
    Policy,
    /// The best of 300 random ones.
    Random,
}

impl Search {
    /// The choice, and what no choice exceeds.
    pub fn choice(self, instance: &Instance) -> Choice {
        let Instance { items, together, capacity, .. } = instance;
        let fast = match self {
            Search::Exact => return best(items, together, *capacity),
            Search::Evolve => evolved(instance, EVALUATIONS, SEED),
            Search::Policy => Network::stored().choice(instance),
            Search::Random => best_of_random(instance, EVALUATIONS, SEED),
        };
        let gain = instance.gain(&fast);
        Choice { fast, gain, bound: exact::bound(items, together, *capacity).max(gain) }
    }
}

/// The choice that gains most of so many random ones that fit.
pub fn best_of_random(instance: &Instance, evaluations: usize, seed: u64) -> Vec<bool> {
    let (mut random, filling) = (Random::seeded(seed), Filling::new(instance));
    let mut best = (0.0, vec![false; instance.items.len()]);
    for _ in 0..evaluations {
        let choice = filling.by(random.order(instance.items.len()));
        let gain = instance.gain(&choice);
        if gain > best.0 {
            best = (gain, choice);
        }
    }
    best.1
}
