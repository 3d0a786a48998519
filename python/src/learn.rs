//! What learns while programs run: chunk choosers, and spans that are followed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use memtrace_analysis::learn::Tracker;
use memtrace_analysis::plan::{self, Request};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::convert::{refused, to_python};
use crate::words::{Halo, Size};

/// Chooses chunks while a job runs, without a model: never one whose bound is above the budget.
///
/// The same seed makes the same choices.
///
/// Args:
///     shape: Lengths of the whole array's axes, in elements.
///     budget: What one task may take, its input included: bytes, or a text like "900 MB".
///     workers: As for `Model.recommend`.
///     threads_per_worker: As for `Model.recommend`.
///     halo: As for `Model.recommend`.
///     whole_axes: As for `Model.recommend`.
///     chunks: The chunk shapes to choose from (default: those that `recommend` tries).
///     seed: Of the random choices.
///
/// Raises:
///     ValueError: A chunk does not belong to the array.
#[pyclass(frozen, module = "memtrace")]
pub(crate) struct ChunkChooser(Mutex<plan::ChunkChooser>);

#[pymethods]
impl ChunkChooser {
    #[new]
    #[pyo3(signature = (shape, budget, workers=1, threads_per_worker=1, halo=None, whole_axes=Vec::new(),
                        chunks=None, seed=0))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        shape: Vec<u64>,
        budget: Size,
        workers: u64,
        threads_per_worker: u64,
        halo: Option<Halo>,
        whole_axes: Vec<usize>,
        chunks: Option<Vec<Vec<u64>>>,
        seed: u64,
    ) -> PyResult<ChunkChooser> {
        let halo = match halo {
            None => vec![0; shape.len()],
            Some(Halo::All(cells)) => vec![cells; shape.len()],
            Some(Halo::Each(cells)) => cells,
        };
        let request =
            Request { halo, whole_axes, workers, threads_per_worker, ..Request::new(shape, 1, budget.0) };
        plan::ChunkChooser::new(&request, budget.0, chunks, seed)
            .map(Mutex::new)
            .map(ChunkChooser)
            .map_err(refused)
    }

    /// The chunk for the next task: the smallest one first, then the one that may be fastest of those that are
    /// safe.
    ///
    /// Returns:
    ///     Lengths of its axes, in elements.
    ///
    /// Raises:
    ///     MemoryError: Even the smallest needs more than the budget.
    fn choose<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        chunk(py, self.chooser().choose())
    }

    /// The chunk that is believed to be fastest of those that are safe.
    ///
    /// Returns:
    ///     Lengths of its axes, in elements.
    ///
    /// Raises:
    ///     MemoryError: As for `choose`.
    fn best<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        chunk(py, self.chooser().best())
    }

    /// Takes in what a task needed.
    ///
    /// Args:
    ///     chunk: Lengths of its chunk's axes.
    ///     bytes: Its input and its working peak.
    ///     seconds: How long it took.
    ///
    /// Raises:
    ///     ValueError: The chunk is none of those to choose from.
    fn observe(&self, chunk: Vec<u64>, bytes: u64, seconds: f64) -> PyResult<()> {
        self.chooser().observe(&chunk, bytes, seconds).map_err(refused)
    }

    /// Takes in that a task was killed for lack of memory.
    ///
    /// No chunk that is as long in every dimension is chosen again.
    ///
    /// Args:
    ///     chunk: Lengths of its chunk's axes.
    ///
    /// Raises:
    ///     ValueError: The chunk is none of those to choose from.
    fn failed(&self, chunk: Vec<u64>) -> PyResult<()> {
        self.chooser().failed(&chunk).map_err(refused)
    }

    /// What is believed of a chunk, as a dict.
    ///
    /// Args:
    ///     chunk: Lengths of its axes.
    ///
    /// Returns:
    ///     bytes and upper_bytes of a task, seconds of the whole job; None where nothing was observed yet.
    ///
    /// Raises:
    ///     ValueError: The chunk is none of those to choose from.
    fn belief<'py>(&self, py: Python<'py>, chunk: Vec<u64>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.chooser().belief(&chunk).map_err(refused)?)
    }
}

impl ChunkChooser {
    fn chooser(&self) -> MutexGuard<'_, plan::ChunkChooser> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn chunk<'py>(py: Python<'py>, chosen: Option<Vec<u64>>) -> PyResult<Bound<'py, PyTuple>> {
    let chunk = chosen.ok_or_else(|| {
        PyMemoryError::new_err("no chunk fits: even the smallest needs more than the budget of a task")
    })?;
    PyTuple::new(py, chunk)
}

/// Follows a running span against its law: `Model.follow`. It takes blocks in the order of the events.
#[pyclass(frozen, module = "memtrace")]
pub(crate) struct Follower(Mutex<Tracker>);

#[pymethods]
impl Follower {
    /// The span allocated a block of `bytes` bytes.
    fn allocated(&self, bytes: u64) {
        self.tracker().allocated(bytes);
    }

    /// A block of `bytes` bytes, which the span had allocated, was released.
    fn released(&self, bytes: u64) {
        self.tracker().released(bytes);
    }

    /// The prediction at this moment, as a dict.
    ///
    /// Returns:
    ///     peak_bytes (of the span at its end), least_bytes (the least that is plausible: warnings go by it),
    ///         law_bytes, live_bytes, progress (part of the law's steps that are done; None for a law without
    ///         steps), scale.
    fn forecast<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.tracker().forecast())
    }
}

impl Follower {
    pub(crate) fn new(tracker: Tracker) -> Follower {
        Follower(Mutex::new(tracker))
    }

    fn tracker(&self) -> MutexGuard<'_, Tracker> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
