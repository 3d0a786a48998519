//! A small graph policy: it says of each object whether it belongs into the fast tier by what one
//! recorded run says, without an estimate of what is gained ([`features`]). A [`network`] that was
//! trained on exact choices of other programs ([`training`]) gives each object a logit; the objects with
//! the largest ones are fast, as far as they fit.
//!
//! `scripts/experiments placement policy` trains it, and writes `weights.json`.

mod features;
mod network;
mod training;

use std::sync::LazyLock;

pub use network::Network;

use super::instance::{Filling, Instance};

static STORED: LazyLock<Network> = LazyLock::new(|| {
    serde_json::from_str(include_str!("weights.json")).expect("the stored weights are those of a network")
});

impl Network {
    /// The network that memtrace comes with.
    pub fn stored() -> Network {
        STORED.clone()
    }

    /// A network that makes the exact choices of these instances as well as it can.
    pub fn trained(instances: &[Instance], seed: u64) -> Network {
        training::trained(instances, seed)
    }

    /// For each object whether it is in the fast tier.
    pub fn choice(&self, instance: &Instance) -> Vec<bool> {
        let features = features::features(instance);
        Filling::new(instance).by_score(|item| self.logit(&features[item]))
    }
}
