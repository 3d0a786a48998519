//! The most that operators were seen to need whose memory depends on what is in their arrays.

use serde::{Deserialize, Serialize};

use super::parts::Body;
use crate::law::Size;
use crate::shape::Point;

/// A law of the largest run of each shape: what the worst data values that were run need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorstCase {
    /// How the working peak follows from the shape.
    pub body: Body,
    /// Blocks below the sequence's threshold.
    pub residual: Size,
    /// How many times its bytes the run that went furthest beyond it needed, if any did: data
    /// values that were run at few shapes may have taken a course of their own.
    #[serde(default = "one")]
    pub factor: f64,
}

fn one() -> f64 {
    1.0
}

impl WorstCase {
    /// Its upper bound, bytes; `None` where it does not fit.
    pub fn upper(&self, shape: &Point) -> Option<u128> {
        let fitted = self.fitted(shape)?;
        let bytes = (fitted as f64 * self.factor).ceil();
        (bytes < u128::MAX as f64).then_some((bytes as u128).max(fitted))
    }

    /// The largest run of a shape by the law, bytes.
    pub(crate) fn fitted(&self, shape: &Point) -> Option<u128> {
        match &self.body {
            Body::Symbolic(sequence) => sequence.upper_bytes(shape)?.checked_add(self.residual.upper(shape)?),
            Body::Regression(regression) => regression.upper(shape),
        }
    }
}
