//! What Python's half of the package makes of objects and answers for people: `memtrace/_notebook`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::convert::to_python;

/// An answer as a dict that notebooks show: one of the classes in `answers.py`.
pub(crate) fn answer<'py>(
    py: Python<'py>,
    class: &str,
    value: &impl Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("memtrace._notebook.answers")?.getattr(class)?.call1((to_python(py, value)?,))
}

/// The summary of an object as HTML, by the function `name` of `summaries.py`.
pub(crate) fn summary<'py>(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object.py().import("memtrace._notebook.summaries")?.call_method1(name, (object,))
}

/// The axes that the function `name` of `plots.py` has drawn an object on.
pub(crate) fn plot<'py>(
    name: &str,
    object: &Bound<'py, PyAny>,
    ax: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let keywords = PyDict::new(object.py());
    keywords.set_item("ax", ax)?;
    object.py().import("memtrace._notebook.plots")?.call_method(name, (object,), Some(&keywords))
}
