//! Placements that need no estimate, for comparison.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::instance::{Filling, Instance};
use crate::stats::random::Random;

/// How the fast tier is filled without an estimate of what is gained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// Objects in the order of their first allocation, as long as they fit.
    FirstTouch,
    /// Objects by turns, so that of what is allocated the same share is fast at any time.
    Interleave,
    /// Objects with the most samples for their bytes first.
    Density,
    /// Objects in a random order.
    Random,
}

impl Baseline {
    /// All of them.
    pub const ALL: [Baseline; 4] =
        [Baseline::FirstTouch, Baseline::Interleave, Baseline::Density, Baseline::Random];

    /// For each object whether it is in the fast tier.
    pub fn choice(self, instance: &Instance, seed: u64) -> Vec<bool> {
        let filling = Filling::new(instance);
        let objects = 0..instance.items.len();
        match self {
            Baseline::FirstTouch => filling.by(objects),
            Baseline::Interleave => filling.by(interleaved(instance)),
            Baseline::Density => filling.by_score(|item| {
                instance.traits[item].time_share.unwrap_or(0.0) / instance.items[item].bytes.max(1) as f64
            }),
            Baseline::Random => filling.by(Random::seeded(seed).order(objects.len())),
        }
    }
}

/// The objects whose turn it is: each brings its share of the fast tier, and takes its bytes of what
/// was brought.
fn interleaved(instance: &Instance) -> Vec<usize> {
    let share = (instance.capacity as f64 / instance.peak().max(1) as f64).min(1.0);
    let mut brought = 0.0;
    let has_its_turn = |item: &usize| {
        let bytes = instance.items[*item].bytes as f64;
        brought += share * bytes;
        let is_fast = brought >= bytes;
        brought -= if is_fast { bytes } else { 0.0 };
        is_fast
    };
    (0..instance.items.len()).filter(has_its_turn).collect()
}
