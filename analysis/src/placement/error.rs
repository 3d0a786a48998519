//! What can go wrong, each as one sentence that says what to do.

use std::path::PathBuf;

/// An error of placement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Traces that cannot be learned from.
    #[error("{0}; record it again with memtrace place learn")]
    Learned(String),
    /// A trace could not be read.
    #[error("cannot read the trace: {0}")]
    Trace(#[from] memtrace_trace::Error),
    /// What is wrong with a trace, as the analysis says it.
    #[error(transparent)]
    Analysis(#[from] crate::Error),
    /// A plan could not be read or written.
    #[error("cannot {action} the plan {path}: {source}")]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is no plan.
    #[error("{path} is not a usable plan: {reason}; make one with memtrace place plan")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file without the costs of a machine.
    #[error("{path} is no file of what swap costs: {reason}; make one with memtrace place calibrate")]
    Costs {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A request that makes no sense.
    #[error("{0}")]
    Request(String),
}
