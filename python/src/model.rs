//! Fitted laws.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use memtrace_analysis::Law;
use memtrace_analysis::graph::{self, Graph, Libraries, Planned};
use memtrace_analysis::learn::{Observation, Tracker};
use memtrace_analysis::plan::{Answer, Options, Reach};
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{from_python, refused, to_python};
use crate::extra::Counter;
use crate::law::Law as OneLaw;
use crate::laws::{law, named, running};
use crate::learn::Follower;
use crate::notebook;
use crate::words;
use crate::words::{Count, Halo, Other, Size, named_executor, named_objective, named_source};

/// Laws of operators: `memtrace.fit(traces)`, or `Model.load("model.json")`.
#[pyclass(frozen, module = "memtrace")]
pub(crate) struct Model(RwLock<memtrace_analysis::Model>);

/// The argument of `Model.observe`: a span as a dict, or the shape of its input.
#[derive(FromPyObject)]
enum Span<'py> {
    Dict(Bound<'py, PyDict>),
    Shape(Vec<u64>),
}

#[pymethods]
impl Model {
    /// Reads a model file.
    ///
    /// Args:
    ///     path: The file.
    ///
    /// Returns:
    ///     The model.
    ///
    /// Raises:
    ///     ValueError: The file is no model, or another version of memtrace wrote it.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Model> {
        memtrace_analysis::Model::load(path).map(Model::new).map_err(refused)
    }

    /// Writes the model to a file, whole or not at all.
    ///
    /// Args:
    ///     path: The file.
    ///
    /// Raises:
    ///     ValueError: The file cannot be written.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.read().save(path).map_err(refused)
    }

    /// This model and another as one, as `memtrace merge` does it.
    ///
    /// Laws of one operator, parameters, dtype, layout and versions become one: the better proved one, with
    /// what the runs of both show together.
    ///
    /// Args:
    ///     other: The other model.
    ///
    /// Returns:
    ///     A new model.
    fn merge(&self, other: &Model) -> Model {
        Model::new(self.read().merge(&other.read()))
    }

    /// What was left out of the fit or done by a merge, and why, in sentences.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.read().notes.clone()
    }

    /// The traces it was fitted to, as dicts.
    ///
    /// Their keys: path, sha256, command, host, kernel, cpus, memtrace, recorded_unix_s, recorded, operators,
    /// versions.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.read().sources)
    }

    /// Names of the operators that have laws, in order.
    fn operators(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.read().laws.iter().map(|law| law.key.operator.clone()).collect();
        names.into_iter().collect()
    }

    /// The laws, in the order of the model file.
    fn laws(&self) -> Vec<OneLaw> {
        self.read().laws.iter().cloned().map(OneLaw::new).collect()
    }

    /// What a call of an operator needs, as a dict: what `memtrace predict --json` prints.
    ///
    /// A law that was recorded with another release of a library than this process has is refused, unless
    /// any_version is true.
    ///
    /// Args:
    ///     operator: Its name as recorded, or the last part of it.
    ///     shape: Lengths of the input's axes, in elements.
    ///     dtype: As NumPy writes it ("f4"); needed if there are laws for several.
    ///     any_version: Also use laws of other releases of libraries.
    ///     **params: Parameters of the operator, and `layout`, `device`, `threads` and versions of libraries
    ///         (scipy="1.17").
    ///
    /// Returns:
    ///     Among the keys: peak_bytes and upper_bytes (of the working peak, the input not included),
    ///         input_bytes, output_bytes, one_time_bytes (per process), extrapolated.
    ///
    /// Raises:
    ///     ValueError: There is no such law, or several, or the shape has another number of axes.
    #[pyo3(signature = (operator, shape, dtype=None, *, any_version=false, **params))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        operator: &str,
        shape: Vec<u64>,
        dtype: Option<&str>,
        any_version: bool,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.read();
        let law = law(&model, py, operator, &shape, dtype, any_version, params)?;
        let prediction = memtrace_analysis::predict(law, &shape).map_err(refused)?;
        notebook::answer(py, "Prediction", &prediction)
    }

    /// Takes in what a call of an operator needed; later predictions go by it, and `save` keeps it.
    ///
    /// An exact law stays as it is unless a call contradicts it by more than 0.1 %: then it is no longer called
    /// exact. A shape was run by this process, so its law is found as `predict` finds it; a span has its
    /// parameters and versions itself.
    ///
    /// Args:
    ///     operator: As for `predict`.
    ///     span: One of the spans of `Trace.report()`, or the shape of the input.
    ///     bytes: With a shape: the working peak, the input not included.
    ///     seconds: With a shape: the time, if it is known.
    ///     dtype: As for `predict`.
    ///     any_version: As for `predict`.
    ///     **params: As for `predict`.
    ///
    /// Returns:
    ///     predicted_bytes (before), working_peak_bytes, expected_bytes (now), proof, note (why a span was left
    ///         out, or what it changed).
    ///
    /// Raises:
    ///     ValueError: There is no law for a span like this.
    ///     TypeError: A shape without bytes.
    #[pyo3(signature = (operator, span, bytes=None, seconds=None, dtype=None, *, any_version=false, **params))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn observe<'py>(
        &self,
        py: Python<'py>,
        operator: &str,
        span: Span<'py>,
        bytes: Option<u64>,
        seconds: Option<f64>,
        dtype: Option<&str>,
        any_version: bool,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut model = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let observed = match span {
            Span::Dict(span) => {
                let span: Observation = from_python(py, &span)?;
                model.observe(operator, &span)
            }
            Span::Shape(shape) => {
                let bytes =
                    bytes.ok_or_else(|| PyTypeError::new_err("a shape is observed with its bytes"))?;
                let chosen: *const Law = law(&model, py, operator, &shape, dtype, any_version, params)?;
                let missing = || refused(format!("the model has no law for {operator}"));
                let law = model.laws.iter_mut().find(|law| std::ptr::eq(*law, chosen)).ok_or_else(missing)?;
                law.observe(&shape, bytes, seconds)
            }
        };
        to_python(py, &observed.map_err(refused)?)
    }

    /// Follows a call of an operator while it runs. The arguments are those of `predict`.
    ///
    /// Returns:
    ///     A `Follower`, which takes blocks as they come and predicts the peak.
    ///
    /// Raises:
    ///     ValueError: As for `predict`.
    #[pyo3(signature = (operator, shape, dtype=None, *, any_version=false, **params))]
    fn follow(
        &self,
        py: Python<'_>,
        operator: &str,
        shape: Vec<u64>,
        dtype: Option<&str>,
        any_version: bool,
        params: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Follower> {
        let model = self.read();
        let law = law(&model, py, operator, &shape, dtype, any_version, params)?;
        Tracker::new(law, &shape).map(Follower::new).map_err(refused)
    }

    /// Chunks of an array that let workers run an operator within their memory, as a dict.
    ///
    /// It is what `memtrace recommend --format json` prints. Dask takes `tuple(map(tuple, plan["chunks"]))`.
    ///
    /// Args:
    ///     operator: As for `predict`.
    ///     shape: Lengths of the array's axes, in elements.
    ///     memory_limit: Of each worker: bytes, or a text like "900 MB".
    ///     workers: Their number, or "auto": as many as are worth having.
    ///     threads_per_worker: Threads of each.
    ///     halo: Extra cells that a chunk needs on each side: one number for all axes, or one for each (default:
    ///         none).
    ///     whole_axes: Axes to leave in one chunk.
    ///     dtype: As for `predict`.
    ///     budget_fraction: The part of the limit a worker may use (default: the lower of Dask's spill and pause).
    ///     baseline_bytes: Resident bytes of a worker before it starts (default: those of the recorded processes,
    ///         100 MB if they were not sampled, and 110 MB for Dask).
    ///     any_version: As for `predict`.
    ///     warmed: The operator was called in the worker before the baseline was measured, so that its one-time
    ///         allocations are included.
    ///     extra_bytes: Called with (chunks, task_bytes, frontier_bytes): what a worker needs in addition to these.
    ///     minimise: "time", "memory" or "tasks".
    ///     source: "dask" (tasks of one graph that neighbours share, as with map_overlap), "storage" (each task
    ///         reads its chunk and halo), or "waves" (a few blocks at a time, each from a graph of its own).
    ///     storage_chunks: Chunk lengths of the store; chunks are made of whole ones where these fit.
    ///     aligned: Chunks are only made of whole ones of the store.
    ///     compare: "auto" for what Dask's own choice would need, or chunk lengths for what these would.
    ///     device_memory_limit: Memory of the GPU that each worker has to itself, where the operator uses one:
    ///         chunks fit both, and `bound_by` says which memory rules.
    ///     slow_memory: Swap that each worker may take beyond `memory_limit`, of which it may use all
    ///         then: chunks that need it are taken where moves cost less than smaller chunks do.
    ///     machine: With `slow_memory`, what moves cost: the file that `memtrace place calibrate` wrote.
    ///     **params: As for `predict`.
    ///
    /// Returns:
    ///     Among the keys: chunks (lengths along each axis), chunk_shape, tasks, predicted_task_bytes,
    ///         predicted_worker_bytes, budget_bytes, predicted_seconds, why, pareto (other choices), waves,
    ///         compare, tried.
    ///
    /// Raises:
    ///     MemoryError: Nothing fits; the message names the smallest limit that would.
    ///     ValueError: As for `predict`, or the arguments contradict each other.
    #[pyo3(signature = (operator, shape, memory_limit, workers, threads_per_worker=1, halo=None,
                        whole_axes=Vec::new(), dtype=None, budget_fraction=None, baseline_bytes=None,
                        any_version=false, *, warmed=false, extra_bytes=None, minimise="time", source="dask",
                        storage_chunks=None, aligned=false, compare=None, device_memory_limit=None,
                        slow_memory=None, machine=None, **params))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn recommend<'py>(
        &self,
        py: Python<'py>,
        operator: &str,
        shape: Vec<u64>,
        memory_limit: Size,
        workers: Count,
        threads_per_worker: u64,
        halo: Option<Halo>,
        whole_axes: Vec<usize>,
        dtype: Option<&str>,
        budget_fraction: Option<f64>,
        baseline_bytes: Option<u64>,
        any_version: bool,
        warmed: bool,
        extra_bytes: Option<Py<PyAny>>,
        minimise: &str,
        source: &str,
        storage_chunks: Option<Vec<u64>>,
        aligned: bool,
        compare: Option<Other>,
        device_memory_limit: Option<Size>,
        slow_memory: Option<Size>,
        machine: Option<PathBuf>,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let known = Options::new(memory_limit.0);
        let counter = extra_bytes.map(Counter::new);
        let options = Options {
            device_limit_bytes: device_memory_limit.map(|limit| limit.0),
            workers: workers.workers()?,
            threads_per_worker,
            halo: halo.map_or_else(|| known.halo.clone(), Halo::cells),
            whole_axes,
            budget_fraction,
            baseline_bytes,
            warmed,
            extra: counter.as_ref().map(Counter::extra),
            source: named_source(source)?,
            storage_chunks,
            aligned,
            minimise: named_objective(minimise)?,
            compare: compare.map(Other::baseline).transpose()?,
            slow: words::slow_memory(slow_memory, machine.as_deref())?,
            ..known
        };
        // Not locked while Python counts: another thread may wait to observe.
        let law = law(&self.read(), py, operator, &shape, dtype, any_version, params)?.clone();
        let answer = options.recommend(&law, shape);
        counter.map_or(Ok(()), Counter::checked)?;
        match answer.map_err(refused)? {
            Answer::Plan(plan) => notebook::answer(py, "Plan", &plan),
            Answer::Refusal(refusal) => Err(PyMemoryError::new_err(refusal.why)),
        }
    }

    /// How long an axis may be at most so that one call stays within memory, as a dict: the largest batch.
    ///
    /// Args:
    ///     operator: As for `predict`.
    ///     shape: Lengths of all axes; the one of `axis` is ignored.
    ///     axis: Which axis, from 0.
    ///     memory_limit: Of the process: bytes, or a text like "900 MB".
    ///     device_memory_limit: Of its GPU.
    ///     multiple: Lengths are multiples of it.
    ///     dtype: As for `predict`.
    ///     baseline_bytes: Resident bytes of the process before the call (default: those of the recorded
    ///         processes).
    ///     any_version: As for `predict`.
    ///     **params: As for `predict`.
    ///
    /// Returns:
    ///     axis, length, shape, predicted_worker_bytes, budget_bytes, device, bound_by, why.
    ///
    /// Raises:
    ///     MemoryError: Not even the shortest fits.
    ///     ValueError: As for `predict`, or there is no such axis.
    #[pyo3(signature = (operator, shape, axis, memory_limit, device_memory_limit=None, multiple=1, dtype=None,
                        baseline_bytes=None, any_version=false, **params))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn longest<'py>(
        &self,
        py: Python<'py>,
        operator: &str,
        shape: Vec<u64>,
        axis: usize,
        memory_limit: Size,
        device_memory_limit: Option<Size>,
        multiple: u64,
        dtype: Option<&str>,
        baseline_bytes: Option<u64>,
        any_version: bool,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.read();
        let law = law(&model, py, operator, &shape, dtype, any_version, params)?;
        let options = Options {
            device_limit_bytes: device_memory_limit.map(|limit| limit.0),
            baseline_bytes,
            ..Options::new(memory_limit.0)
        };
        match options.longest(law, shape, axis, multiple).map_err(refused)? {
            Reach::Longest(longest) => to_python(py, &longest),
            Reach::Refusal(refusal) => Err(PyMemoryError::new_err(refusal.why)),
        }
    }

    /// What `memtrace.plan` calls, which takes more kinds of graphs.
    ///
    /// Args:
    ///     graph: The JSON text of a graph.
    ///     memory_limit: As for `memtrace.plan`; so are the other arguments.
    ///
    /// Returns:
    ///     As for `memtrace.plan`.
    ///
    /// Raises:
    ///     MemoryError: Nothing fits; the message names the smallest limit that would.
    ///     ValueError: The graph or the arguments are invalid, or a law is missing.
    #[pyo3(signature = (graph, *, memory_limit=None, workers=None, threads=1, executor=None, baseline_bytes=None,
                        budget_fraction=None, any_version=false))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn plan_graph<'py>(
        &self,
        py: Python<'py>,
        graph: &str,
        memory_limit: Option<Size>,
        workers: Option<Count>,
        threads: u64,
        executor: Option<&str>,
        baseline_bytes: Option<u64>,
        budget_fraction: Option<f64>,
        any_version: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.read();
        let graph = Graph::parse(graph).map_err(refused)?;
        let options = graph::Options {
            memory_limit_bytes: memory_limit.map(|limit| limit.0),
            workers: workers.map(Count::workers).transpose()?,
            threads_per_worker: threads,
            executor: executor.map(|name| named_executor(name, threads)).transpose()?,
            budget_fraction,
            baseline_bytes,
        };
        let libraries = Libraries { versions: running(&model, py, graph.operators())?, any_version };
        let too_large = |refusal: graph::Refusal| PyMemoryError::new_err(refusal.why);
        match py.detach(|| options.plan(&model, &libraries, &graph)).map_err(refused)? {
            Planned::Chunks(graph::Answer::Plan(plan)) => notebook::answer(py, "Plan", &plan),
            Planned::Chunks(graph::Answer::Refusal(refusal)) => Err(too_large(refusal)),
            Planned::AsItIs { fit: Some(Err(refusal)), .. } => Err(too_large(refusal)),
            Planned::AsItIs { forecast, .. } => notebook::answer(py, "Forecast", &forecast),
        }
    }

    /// Draws measured peaks, a law and its bound over the first variable that varied (matplotlib).
    ///
    /// Args:
    ///     operator: As for `predict` (default: the one of the largest recorded peak).
    ///     dtype: As for `predict`.
    ///     ax: The axes to draw on (default: new ones).
    ///     **params: As for `predict`.
    ///
    /// Returns:
    ///     The axes.
    ///
    /// Raises:
    ///     ImportError: matplotlib is not installed.
    ///     ValueError: There is no such law, or several.
    #[pyo3(signature = (operator=None, dtype=None, *, ax=None, **params))]
    fn plot<'py>(
        slf: &Bound<'py, Self>,
        operator: Option<&str>,
        dtype: Option<&str>,
        ax: Option<Bound<'py, PyAny>>,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(operator) = operator else { return notebook::plot("model", slf, ax) };
        let law = OneLaw::new(named(&slf.get().read(), operator, dtype, params)?.clone());
        notebook::plot("law", Bound::new(slf.py(), law)?.as_any(), ax)
    }

    fn __repr__(&self) -> String {
        format!("<memtrace model of {}>", self.operators().join(", "))
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        notebook::summary("model", slf)
    }
}

impl Model {
    pub(crate) fn new(model: memtrace_analysis::Model) -> Model {
        Model(RwLock::new(model))
    }

    fn read(&self) -> RwLockReadGuard<'_, memtrace_analysis::Model> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
