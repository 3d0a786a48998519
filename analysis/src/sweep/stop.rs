//! Why a sweep ends.

use std::fmt;

use crate::shape::joined;
use crate::units::{AtLeast, Bytes};

/// Why nothing more is run.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// The laws are proved.
    Proved,
    /// All runs that were allowed were made.
    Runs(usize),
    /// The law is determined; to prove it the range would have to reach this shape.
    Range {
        /// The smallest verification run.
        needed: Vec<u64>,
    },
    /// The next run is predicted to need more than the budget.
    Budget {
        /// Its shape.
        shape: Vec<u64>,
        /// At most this many bytes.
        needs_bytes: u64,
        /// The budget.
        budget_bytes: u64,
    },
    /// The range has no further shape.
    Exhausted,
    /// The verification run spoke against the law.
    Contradicted,
    /// The command failed down to the smallest shape.
    Failed,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Proved => write!(f, "the laws are proved"),
            Stop::Runs(runs) => write!(f, "that was the last of {runs} runs (--runs)"),
            Stop::Range { needed } => write!(
                f,
                "not verified: that takes a run at {} or larger, beyond the range of --shapes",
                joined(needed)
            ),
            Stop::Budget { shape, needs_bytes, budget_bytes } => write!(
                f,
                "a run at {} may need {}, more than the {} it may have (--memory-limit)",
                joined(shape),
                AtLeast(*needs_bytes),
                Bytes(*budget_bytes)
            ),
            Stop::Exhausted => write!(f, "the range has no further shape: give a wider one"),
            Stop::Contradicted => write!(f, "the verification run does not agree with the law"),
            Stop::Failed => write!(f, "the command failed at every shape down to the smallest"),
        }
    }
}
