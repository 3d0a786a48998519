//! What learns while programs run: chunk choosers, and spans that are followed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use memtrace_analysis::online;
use memtrace_analysis::plan::Request;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::convert::{refused, to_python};

/// Chooses chunks while a job runs, from no model: never one whose bound is above the budget.
///
/// shape: lengths of the whole array's axes, in elements. budget: bytes that one task may take, its input
/// included. halo, whole_axes, workers, threads_per_worker: as for `Model.recommend`. chunks: the chunk
/// shapes to choose from (default: those that `recommend` tries). The same seed makes the same choices.
/// ValueError: chunks that are none of the array.
#[pyclass(frozen, module = "memtrace")]
pub(crate) struct ChunkChooser(Mutex<online::ChunkChooser>);

#[pymethods]
impl ChunkChooser {
    #[new]
    #[pyo3(signature = (shape, budget, workers=1, threads_per_worker=1, halo=None, whole_axes=Vec::new(),
                        chunks=None, seed=0))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        shape: Vec<u64>,
        budget: u64,
        workers: u64,
        threads_per_worker: u64,
        halo: Option<Vec<u64>>,
        whole_axes: Vec<usize>,
        chunks: Option<Vec<Vec<u64>>>,
        seed: u64,
    ) -> PyResult<ChunkChooser> {
        let request = Request {
            halo: halo.unwrap_or_else(|| vec![0; shape.len()]),
            whole_axes,
            workers,
            threads_per_worker,
            ..Request::new(shape, 1, budget)
        };
        online::ChunkChooser::new(&request, budget, chunks, seed)
            .map(Mutex::new)
            .map(ChunkChooser)
            .map_err(refused)
    }

    /// The chunk for the next task: the smallest one first, then the one that may be fastest of those
    /// that are safe. MemoryError: even the smallest needs more than the budget.
    fn choose<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        chunk(py, self.chooser().choose())
    }

    /// The chunk that is believed to be fastest of those that are safe. MemoryError: as for `choose`.
    fn best<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        chunk(py, self.chooser().best())
    }

    /// A task of this chunk took `bytes` (its input and its working peak) and `seconds`.
    fn observe(&self, chunk: Vec<u64>, bytes: u64, seconds: f64) -> PyResult<()> {
        self.chooser().observe(&chunk, bytes, seconds).map_err(refused)
    }

    /// A task of this chunk was killed for lack of memory: no chunk that is as long in every
    /// dimension is chosen again.
    fn failed(&self, chunk: Vec<u64>) -> PyResult<()> {
        self.chooser().failed(&chunk).map_err(refused)
    }

    /// What is believed of a chunk, as a dict: bytes and upper_bytes of a task, seconds of the whole job; None
    /// where nothing was observed yet.
    fn belief<'py>(&self, py: Python<'py>, chunk: Vec<u64>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.chooser().belief(&chunk).map_err(refused)?)
    }
}

impl ChunkChooser {
    fn chooser(&self) -> MutexGuard<'_, online::ChunkChooser> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn chunk<'py>(py: Python<'py>, chosen: Option<Vec<u64>>) -> PyResult<Bound<'py, PyTuple>> {
    let chunk = chosen.ok_or_else(|| {
        PyMemoryError::new_err("no chunk fits: even the smallest needs more than the budget of a task")
    })?;
    PyTuple::new(py, chunk)
}

/// Follows a running span against its law: `Model.follow`. Tell it of blocks in the order of the events.
#[pyclass(frozen, module = "memtrace")]
pub(crate) struct Follower(Mutex<online::Tracker>);

#[pymethods]
impl Follower {
    /// The span allocated a block of so many bytes.
    fn allocated(&self, bytes: u64) {
        self.tracker().allocated(bytes);
    }

    /// A block of so many bytes, that the span had allocated, was released.
    fn released(&self, bytes: u64) {
        self.tracker().released(bytes);
    }

    /// Where it stands, as a dict: peak_bytes (of the span when it will have ended), least_bytes (of all that is
    /// plausible: warnings go by it), law_bytes, live_bytes,
    /// progress (part of the law's steps that are done; None for a law without steps), scale.
    fn forecast<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.tracker().forecast())
    }
}

impl Follower {
    pub(crate) fn new(tracker: online::Tracker) -> Follower {
        Follower(Mutex::new(tracker))
    }

    fn tracker(&self) -> MutexGuard<'_, online::Tracker> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
