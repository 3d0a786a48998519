//! Bounds of operators that were never run.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use memtrace_analysis::generic::{Ask, Dtype, Library, Source, bound as bound_of};

use crate::convert::{parameters, refused, to_python};

/// A bound from a description of an operator's source (JSON text), as a dict: what `memtrace bound --json` prints.
///
/// shapes, dtypes: of the array inputs in order. library: JSON text of what is known of library functions
/// (default: what memtrace was built with). ValueError: the description or a shape means nothing.
#[pyfunction]
#[pyo3(signature = (source, shapes, dtypes, layout="C".to_owned(), params=None, library=None))]
pub(crate) fn bound_source<'py>(
    py: Python<'py>,
    source: &str,
    shapes: Vec<Vec<u64>>,
    dtypes: Vec<String>,
    layout: String,
    params: Option<&Bound<'py, PyDict>>,
    library: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let read =
        |text: &String| Dtype::parse(text).ok_or_else(|| refused(format!("{text} is no element type")));
    let dtypes = dtypes.iter().map(read).collect::<PyResult<Vec<_>>>()?;
    let loaded = library.map(Library::parse).transpose().map_err(refused)?;
    let library = loaded.as_ref().unwrap_or_else(|| Library::shipped());
    let ask = Ask { shapes, dtypes, layout, params: parameters(params)? };
    let answer =
        Source::parse(source).and_then(|source| bound_of(&source, library, &ask)).map_err(refused)?;
    to_python(py, &answer)
}
