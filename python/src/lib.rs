//! `memtrace._native`: what the Rust crates know of traces, laws and plans, for Python.
//!
//! Constraints: no own computation, no printing. Answers are plain dicts and lists with the keys that the
//! command line's JSON has; every error is a Python exception of one sentence.

mod convert;
mod model;
mod trace;

use pyo3::prelude::*;

/// The native half of the package `memtrace`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::trace::Trace;
}
