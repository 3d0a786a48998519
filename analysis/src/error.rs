//! What can go wrong, each as one sentence that says what to do.

use std::path::PathBuf;

/// An error of the analysis.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A trace could not be read.
    #[error("cannot read the trace: {0}")]
    Trace(String),
    /// The rows of a trace do not say what is wanted.
    #[error("the rows of the trace do not tell this: {0}")]
    NoRows(String),
    /// A trace without a span of an operator.
    #[error("the trace has no span of an operator {wanted}; {known}")]
    NoSpan {
        /// The operator that is wanted.
        wanted: String,
        /// Those that it has, in words.
        known: String,
    },
    /// A model file could not be read or written.
    #[error("cannot {action} the model {path}: {source}")]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The model file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A model file that is not one.
    #[error("{path} is not a usable memtrace model: {reason}")]
    Malformed {
        /// The model file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A model file of a later memtrace.
    #[error("the model has schema version {found}, this memtrace reads {supported}: update memtrace")]
    Newer {
        /// Its version.
        found: u64,
        /// The one that this program reads.
        supported: u32,
    },
    /// A model file of an earlier memtrace.
    #[error("the model has schema version {found}, this memtrace reads {supported}: fit it again")]
    Older {
        /// Its version.
        found: u64,
        /// The one that this program reads.
        supported: u32,
    },
    /// No law for a query.
    #[error("{0}")]
    NoLaw(String),
    /// A law for other libraries than those that will run.
    #[error("{0}; record it with these, or ask for any version (--any-version, in Python any_version=True)")]
    OtherVersions(String),
    /// Nothing to fit on.
    #[error("{0}")]
    NoRuns(String),
    /// A described program, or a library of functions, that is none.
    #[error("cannot use the source description: {0}")]
    Source(String),
    /// A shape of the wrong number of dimensions, with an empty one, or too large to mean anything.
    #[error("{0}")]
    Shape(String),
}

impl From<memtrace_trace::Error> for Error {
    fn from(error: memtrace_trace::Error) -> Error {
        Error::Trace(error.to_string())
    }
}
