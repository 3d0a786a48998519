//! `memtrace._native`: what the Rust crates know of traces, laws and plans, for Python.
//!
//! Constraints: no own computation, no printing. Answers are plain dicts and lists with the keys that the
//! command line's JSON has; tables are Arrow streams; every error is a Python exception of one sentence.

mod convert;
mod extra;
mod first;
mod fit;
mod generic;
mod law;
mod laws;
mod learn;
mod model;
mod notebook;
mod operators;
mod table;
mod trace;
mod traces;
mod words;

use pyo3::prelude::*;

/// The native half of the package `memtrace`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::fit::{fit, fit_dry_runs, fit_profiles, fit_table, read_profiles, trace_directories};
    #[pymodule_export]
    use super::generic::bound_source;
    #[pymodule_export]
    use super::law::Law;
    #[pymodule_export]
    use super::learn::{ChunkChooser, Follower};
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::trace::Trace;
    #[pymodule_export]
    use super::traces::Traces;

    #[pymodule_init]
    fn init(_module: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        memtrace_trace::quiet_panics();
        Ok(())
    }
}
