//! Bounds of operators that were never run.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use memtrace_analysis::generic::{Dtype, Inputs, Library, Source, bound as bound_of};

use crate::convert::{parameters, refused, to_python};

/// A bound from a description of an operator's source, as a dict: what `memtrace bound --json` prints.
///
/// Args:
///     source: The description, JSON text.
///     shapes: Of the array inputs, in order.
///     dtypes: Of the array inputs, in order.
///     layout: How they lie in memory: "C", "F" or "strided".
///     params: Values of other parameters.
///     library: JSON text of laws of library functions (default: what memtrace was built with).
///
/// Returns:
///     The bound.
///
/// Raises:
///     ValueError: The description, a shape or a dtype is invalid.
#[pyfunction]
#[pyo3(signature = (source, shapes, dtypes, layout="C", params=None, library=None))]
pub(crate) fn bound_source<'py>(
    py: Python<'py>,
    source: &str,
    shapes: Vec<Vec<u64>>,
    dtypes: Vec<String>,
    layout: &str,
    params: Option<&Bound<'py, PyDict>>,
    library: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let read =
        |text: &String| Dtype::parse(text).ok_or_else(|| refused(format!("{text} is no element type")));
    let dtypes = dtypes.iter().map(read).collect::<PyResult<Vec<_>>>()?;
    let loaded = library.map(Library::parse).transpose().map_err(refused)?;
    let library = loaded.as_ref().unwrap_or_else(|| Library::shipped());
    let inputs = Inputs { shapes, dtypes, layout: layout.to_owned(), params: parameters(params)? };
    let answer =
        Source::parse(source).and_then(|source| bound_of(&source, library, &inputs)).map_err(refused)?;
    to_python(py, &answer)
}
