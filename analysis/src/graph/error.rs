//! Why a graph cannot be planned.

/// Why a graph cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the graph says cannot be used.
    #[error("the graph cannot be planned: {0}")]
    Graph(String),
    /// A step's law is missing, or has no value there.
    #[error("step {step}: {source}")]
    Law {
        /// The step.
        step: String,
        /// Why.
        source: crate::error::Error,
    },
    /// The request contradicts itself.
    #[error("{0}")]
    Request(String),
}
