//! Fitting models: to traces, to figures from elsewhere, to dry runs.

use std::path::PathBuf;

use memtrace_analysis::fit::dry_runs::{self, DryRun};
use memtrace_analysis::{Error, profile};
use memtrace_trace::traces_in;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::convert::refused;
use crate::model::Model;
use crate::trace::Trace;
use crate::traces::Traces;

/// A trace, several, or where they are.
#[derive(FromPyObject)]
pub(crate) enum Source<'py> {
    Opened(PyRef<'py, Trace>),
    InDirectory(PyRef<'py, Traces>),
    Path(PathBuf),
}

/// One of them or several.
#[derive(FromPyObject)]
pub(crate) enum Sources<'py> {
    One(Source<'py>),
    Several(Vec<Source<'py>>),
}

impl Sources<'_> {
    fn directories(&self) -> PyResult<Vec<PathBuf>> {
        let sources = match self {
            Sources::One(source) => std::slice::from_ref(source),
            Sources::Several(sources) => sources,
        };
        let directories = sources.iter().map(|source| match source {
            Source::Opened(trace) => Ok(vec![trace.0.directory().to_owned()]),
            Source::InDirectory(several) => Ok(several.traces.clone()),
            Source::Path(path) => traces_in(path).map_err(refused),
        });
        Ok(directories.collect::<PyResult<Vec<_>>>()?.concat())
    }
}

/// Fits a law to each operator: what `memtrace.fit` calls.
#[pyfunction]
pub(crate) fn fit(py: Python<'_>, traces: Sources<'_>) -> PyResult<Model> {
    let traces = opened(&traces.directories()?)?;
    py.detach(|| memtrace_analysis::fit(&traces)).map(Model::new).map_err(refused)
}

/// The directories of traces, in their order.
#[pyfunction]
pub(crate) fn trace_directories(traces: Sources<'_>) -> PyResult<Vec<PathBuf>> {
    traces.directories()
}

/// What `fit` needs of the traces in some directories, for `fit_profiles`; of copies, which have a
/// URL, the model names that. A cluster's worker has threads for other tasks: this takes one.
#[pyfunction]
pub(crate) fn read_profiles<'py>(
    py: Python<'py>,
    directories: Vec<(PathBuf, Option<String>)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (directories, urls): (Vec<_>, Vec<_>) = directories.into_iter().unzip();
    let traces = opened(&directories)?;
    let read = || {
        let mut profiles = profile::read_with(&traces, 1)?;
        let sources = profiles.iter_mut().map(|profile| profile.source.as_mut());
        for (source, url) in sources.zip(urls) {
            if let (Some(source), Some(url)) = (source, url) {
                source.path = url;
            }
        }
        serde_json::to_vec(&profiles).map_err(|error| Error::Trace(error.to_string()))
    };
    let bytes = py.detach(read).map_err(refused)?;
    Ok(PyBytes::new(py, &bytes))
}

/// Fits as `fit` does to all traces that were read in parts, in the order of the parts.
#[pyfunction]
pub(crate) fn fit_profiles(py: Python<'_>, parts: Vec<PyBackedBytes>) -> PyResult<Model> {
    let of_part = |part: &PyBackedBytes| {
        serde_json::from_slice(part).map_err(|error| Error::Trace(format!("a part of its profile: {error}")))
    };
    let fitted = || memtrace_analysis::fit::fit_profiles(&profile::join(parts.iter().map(of_part))?);
    py.detach(fitted).map(Model::new).map_err(refused)
}

fn opened(directories: &[PathBuf]) -> PyResult<Vec<memtrace_trace::Trace>> {
    directories.iter().map(|path| memtrace_trace::Trace::open(path).map_err(refused)).collect()
}

/// Fits a law to figures that were measured elsewhere.
///
/// Args:
///     shapes: Of the array the operator works on, one for each figure: lengths in elements.
///     bytes: The figures: working peaks or resident sizes; `peak_bytes` of a prediction is then of the
///         same kind.
///     dtype: Of the array, as NumPy writes it.
///     operator: What to call it.
///
/// Returns:
///     The model.
///
/// Raises:
///     ValueError: Fewer than three shapes, shapes of several numbers of axes, or an unknown dtype.
#[pyfunction]
#[pyo3(signature = (shapes, bytes, dtype="<f4", operator="operator"))]
pub(crate) fn fit_table(
    py: Python<'_>,
    shapes: Vec<Vec<u64>>,
    bytes: Vec<u64>,
    dtype: &str,
    operator: &str,
) -> PyResult<Model> {
    let digits = dtype.trim_start_matches(|c: char| !c.is_ascii_digit());
    let item_bytes = digits.parse().map_err(|_| {
        PyValueError::new_err(format!(
            "{dtype:?} is not a dtype of a known size; write it as NumPy does: <f4"
        ))
    })?;
    let fitted = py.detach(|| memtrace_analysis::fit_table(operator, dtype, item_bytes, &shapes, &bytes));
    fitted.map(Model::new).map_err(refused)
}

/// A dry run: see `fit_dry_runs`.
#[derive(FromPyObject)]
pub(crate) struct Dry(Vec<u64>, Vec<u64>, Vec<i64>, u64);

/// Fits a law to dry runs of one operator: what `memtrace.torch.fit` calls.
///
/// Args:
///     operator: What to call it.
///     runs: For each run the shape, the bytes of its blocks, what happened to them in order (n
///         allocates block n, -1 - n releases it), and the most that was reserved for them.
///
/// Returns:
///     The model.
///
/// Raises:
///     ValueError: Fewer than three shapes, or events that belong to no block.
#[pyfunction]
pub(crate) fn fit_dry_runs(py: Python<'_>, operator: &str, runs: Vec<Dry>) -> PyResult<Model> {
    let dry = |Dry(shape, blocks, events, reserved_peak)| DryRun { shape, blocks, events, reserved_peak };
    let runs: Vec<DryRun> = runs.into_iter().map(dry).collect();
    py.detach(|| dry_runs::fit_dry_runs(operator, &runs)).map(Model::new).map_err(refused)
}
