//! Why a plan cannot be made.

/// A question that has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The request itself makes no sense.
    #[error("{0}")]
    Request(String),
    /// The law has no value for any chunk.
    #[error("no chunk of this array can be predicted: {0}")]
    Law(crate::error::Error),
}
