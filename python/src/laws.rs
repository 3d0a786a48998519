//! Which law of a model answers in this process.

use std::collections::{BTreeMap, BTreeSet};

use memtrace_analysis::{Law, Model, Query};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{parameters, refused};

/// Versions of the libraries of this process that laws of these operators name.
pub(crate) fn running<'a>(
    model: &Model,
    py: Python<'_>,
    operators: impl IntoIterator<Item = &'a str>,
) -> PyResult<BTreeMap<String, String>> {
    let laws = operators.into_iter().flat_map(|operator| model.of_operator(operator));
    let named: BTreeSet<&String> = laws.flat_map(|law| law.key.versions.keys()).collect();
    if named.is_empty() {
        return Ok(BTreeMap::new());
    }
    py.import("memtrace._planning.versions")?.call_method1("running", (named,))?.extract()
}

/// The law that answers in this process: for its releases of libraries.
pub(crate) fn law<'a>(
    model: &'a Model,
    py: Python<'_>,
    operator: &str,
    shape: &[u64],
    dtype: Option<&str>,
    any_version: bool,
    params: Option<&Bound<'_, PyDict>>,
) -> PyResult<&'a Law> {
    let (params, libraries) = (parameters(params)?, running(model, py, [operator])?);
    let dims = Some(shape.len());
    model.find(&Query { operator, dtype, params, libraries, any_version, dims }).map_err(refused)
}

/// The law of this name, whatever releases of libraries this process has.
pub(crate) fn named<'a>(
    model: &'a Model,
    operator: &str,
    dtype: Option<&str>,
    params: Option<&Bound<'_, PyDict>>,
) -> PyResult<&'a Law> {
    let params = parameters(params)?;
    let query = Query { operator, dtype, params, any_version: true, ..Query::default() };
    model.find(&query).map_err(refused)
}
