//! Recorded traces.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::convert::{refused, to_python};

/// A trace directory: `Trace("memtrace.python.1234")`. Its tables are Parquet: read the large ones with
/// Polars, DuckDB or pandas.
#[pyclass(frozen, module = "memtrace")]
pub(crate) struct Trace(memtrace_trace::Trace);

#[pymethods]
impl Trace {
    #[new]
    fn open(path: PathBuf) -> PyResult<Trace> {
        memtrace_trace::Trace::open(path).map(Trace).map_err(refused)
    }

    /// What was recorded, by what, and what was lost.
    fn meta<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.0.meta())
    }

    /// The processes, a dict each.
    fn processes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.processes().map_err(refused)?)
    }

    /// Peaks, operators, processes and losses: what `memtrace report --json` prints.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &memtrace_analysis::report::json(&self.0, false).map_err(refused)?)
    }

    /// The spans, a dict each: operator, inputs, outputs, peaks.
    fn spans<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.spans().map_err(refused)?)
    }
}
