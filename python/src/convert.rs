//! Between Rust values and Python's, by way of JSON.

use std::collections::BTreeMap;
use std::fmt::Display;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A value as dicts, lists, numbers and strings.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(refused)?;
    py.import("json")?.call_method1("loads", (text,))
}

/// A value from dicts, lists, numbers and strings.
pub(crate) fn from_python<T: DeserializeOwned>(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<T> {
    let text: String = py.import("json")?.call_method1("dumps", (value,))?.extract()?;
    serde_json::from_str(&text).map_err(refused)
}

/// An error of the Rust crates as a `ValueError`: their messages are sentences already.
pub(crate) fn refused(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Keyword arguments as an operator's parameters: numbers, texts and booleans.
pub(crate) fn parameters(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<BTreeMap<String, Value>> {
    let mut parameters = BTreeMap::new();
    for (name, value) in keywords.into_iter().flatten() {
        let name: String = name.extract()?;
        let value = scalar(&value).ok_or_else(|| {
            PyTypeError::new_err(format!("parameter {name} must be a number, a text or a boolean"))
        })?;
        parameters.insert(name, value);
    }
    Ok(parameters)
}

fn scalar(value: &Bound<'_, PyAny>) -> Option<Value> {
    if value.is_instance_of::<PyBool>() {
        return value.extract::<bool>().ok().map(Value::from);
    }
    let integer = value.extract::<i64>().ok().map(Value::from);
    let number = || value.extract::<f64>().ok().map(Value::from);
    let text = || value.extract::<String>().ok().map(Value::from);
    integer.or_else(text).or_else(number)
}
