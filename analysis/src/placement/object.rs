//! Objects of a plan, and where they go.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Large blocks of one call stack, size and ordinal: one of them is live at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// Id of the call stack in `sites` of the traces; null if it was not recorded.
    pub site: Option<u64>,
    /// Where that is; null if there is nothing to say.
    pub place: Option<String>,
    /// Bytes of a block.
    pub bytes: u64,
    /// How many blocks of this call stack and size were live when it was allocated.
    pub ordinal: u32,
    /// How many blocks there were, one after the other.
    pub blocks: u64,
    /// Share of the program's samples that met it.
    pub time_share: f64,
    /// CPU seconds it gains in the fast tier.
    pub gain_seconds: f64,
    /// Standard error of that.
    pub gain_error_seconds: f64,
    /// What it gains in the middle tier; null of plans without one.
    pub middle: Option<Gained>,
    /// Where it goes; of swap, whether any of it ever goes there (slow).
    pub tier: Where,
    /// Bytes that go to swap, all times together; 0 for other tiers.
    pub moved_bytes: u64,
}

/// What an object gains in a tier over the slow one.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gained {
    /// CPU seconds.
    pub gain_seconds: f64,
    /// Standard error of that.
    pub gain_error_seconds: f64,
}

/// One of the tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Where {
    /// The slow one.
    Slow,
    /// The one between the two, of plans that have it.
    Middle,
    /// The fast one.
    Fast,
}

impl Object {
    /// What it gains in a tier.
    pub fn gained(&self, tier: Where) -> Gained {
        let Object { gain_seconds, gain_error_seconds, middle, .. } = *self;
        match tier {
            Where::Slow => Gained::default(),
            Where::Middle => middle.unwrap_or_default(),
            Where::Fast => Gained { gain_seconds, gain_error_seconds },
        }
    }

    /// What distinguishes it from others.
    pub(super) fn name(&self) -> (Option<u64>, u64, u32) {
        (self.site, self.bytes, self.ordinal)
    }
}
