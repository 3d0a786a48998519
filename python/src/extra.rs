//! A function in Python that counts what the planner cannot.

use std::sync::{Arc, Mutex, PoisonError};

use memtrace_analysis::plan::{Counted, Extra};
use pyo3::prelude::*;

/// The function, and the first exception that it raised.
pub(crate) struct Counter {
    function: Arc<Py<PyAny>>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Counter {
    pub(crate) fn new(function: Py<PyAny>) -> Counter {
        Counter { function: Arc::new(function), raised: Arc::default() }
    }

    /// Chunks for which the function raises do not fit.
    pub(crate) fn extra(&self) -> Extra {
        let (function, raised) = (self.function.clone(), self.raised.clone());
        Extra::new(move |counted: &Counted| {
            let mut raised = raised.lock().unwrap_or_else(PoisonError::into_inner);
            if raised.is_some() {
                return u64::MAX;
            }
            let Counted { chunks, task_bytes, frontier_bytes } = counted;
            Python::attach(|py| function.call1(py, (chunks, task_bytes, frontier_bytes))?.extract(py))
                .unwrap_or_else(|error| {
                    *raised = Some(error);
                    u64::MAX
                })
        })
    }

    /// What the function raised, as an error.
    pub(crate) fn checked(self) -> PyResult<()> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}
