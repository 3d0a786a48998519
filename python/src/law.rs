//! One law of a model.

use memtrace_analysis::model::Curve;
use pyo3::prelude::*;

use crate::convert::{refused, to_python};
use crate::notebook;

/// A law: `model.laws()[0]`. What it was when it was asked for; later observations are in the model.
#[pyclass(frozen, module = "memtrace")]
pub(crate) struct Law(memtrace_analysis::Law);

#[pymethods]
impl Law {
    /// What it is about, as a dict: operator, params, dtype, layout, versions, and device and threads if they matter.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.key)
    }

    /// What it is a function of, as dicts: name, min and max, the lengths of the runs it was fitted on.
    #[getter]
    fn variables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.variables)
    }

    /// The runs it was fitted on, as dicts: shape, working_peak_bytes, seconds.
    #[getter]
    fn trained_on<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.trained_on)
    }

    /// True if a library called the operator inside of another one in all of its runs.
    #[getter]
    fn internal(&self) -> bool {
        self.0.is_internal()
    }

    /// What a call needs, as `Model.predict` answers it, whatever releases of libraries this process has.
    ///
    /// Args:
    ///     shape: One length for each variable, in elements.
    ///
    /// Returns:
    ///     The prediction.
    ///
    /// Raises:
    ///     ValueError: The shape has another number of lengths.
    fn predict<'py>(&self, py: Python<'py>, shape: Vec<u64>) -> PyResult<Bound<'py, PyAny>> {
        let prediction = memtrace_analysis::predict(&self.0, &shape).map_err(refused)?;
        notebook::answer(py, "Prediction", &prediction)
    }

    /// Draws measured peaks, the law and its bound over the first variable that varied (matplotlib).
    ///
    /// Args:
    ///     ax: The axes to draw on (default: new ones).
    ///
    /// Returns:
    ///     The axes.
    ///
    /// Raises:
    ///     ImportError: matplotlib is not installed.
    #[pyo3(signature = (*, ax=None))]
    fn plot<'py>(slf: &Bound<'py, Self>, ax: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        notebook::plot("law", slf, ax)
    }

    /// What is drawn of it, as a dict.
    fn _curve<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &Curve::of(&self.0).map_err(refused)?)
    }

    fn __repr__(&self) -> String {
        format!("<memtrace law {}: {}>", self.0.key, self.0.proof)
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        notebook::summary("law", slf)
    }
}

impl Law {
    pub(crate) fn new(law: memtrace_analysis::Law) -> Law {
        Law(law)
    }
}
