//! Several recorded traces.

use std::path::PathBuf;

use memtrace_analysis::report::several::several;
use memtrace_trace::traces_in;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::convert::{refused, to_python};
use crate::trace::Trace;

/// The traces in a directory, as a sequence: of ranks, of the tasks of a job array, of a campaign. Each is opened when
/// it is asked for.
#[pyclass(frozen, sequence, module = "memtrace")]
pub(crate) struct Traces {
    directory: PathBuf,
    pub(crate) traces: Vec<PathBuf>,
}

#[pymethods]
impl Traces {
    #[new]
    fn open(path: PathBuf) -> PyResult<Traces> {
        let traces = traces_in(&path).map_err(refused)?;
        Ok(Traces { directory: path, traces })
    }

    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.directory.clone()
    }

    fn __len__(&self) -> usize {
        self.traces.len()
    }

    fn __getitem__(&self, index: usize) -> PyResult<Trace> {
        let path = self.traces.get(index).ok_or_else(|| PyIndexError::new_err("there are fewer traces"))?;
        Trace::at(path)
    }

    /// One picture of all traces as a dict: what `memtrace report --json` prints of the directory.
    ///
    /// Returns:
    ///     `ranks` has the spread of the peaks over ranks, the largest ranks, and each operator over all ranks; `nodes`
    ///         has each machine next to its memory.
    ///
    /// Raises:
    ///     ValueError: No trace can be read.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found = py.detach(|| several(&self.traces)).map_err(refused)?;
        to_python(py, &found)
    }

    fn __repr__(&self) -> String {
        format!("<memtrace: {} traces in {}>", self.traces.len(), self.directory.display())
    }
}
