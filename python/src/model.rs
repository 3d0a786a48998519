//! Fitted laws.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use memtrace_analysis::graph::{self, Executor, Graph, Libraries, Limits};
use memtrace_analysis::online::{Observation, Tracker};
use memtrace_analysis::plan::{
    self, Answer, Device, Minimise, Process, Reach, Request, Source as From, Workers, recorded_bytes,
};
use memtrace_analysis::sequences::{self, DryRun};
use memtrace_analysis::{Ask, Law};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{from_python, parameters, refused, to_python};
use crate::online::Follower;
use crate::trace::Trace;
use crate::words::{Count, Other, named_executor, one_of};

/// A trace, or where it is.
#[derive(FromPyObject)]
pub(crate) enum Source<'py> {
    Opened(PyRef<'py, Trace>),
    Path(PathBuf),
}

/// One of them or several.
#[derive(FromPyObject)]
pub(crate) enum Sources<'py> {
    One(Source<'py>),
    Several(Vec<Source<'py>>),
}

/// Fits a law to each operator that was recorded at three shapes or more.
///
/// traces: traces or their directories, or one of them. Three non-cubic shapes whose lengths have no common
/// factor tell most. ValueError: a trace cannot be read, or no operator was run at enough shapes.
#[pyfunction]
pub(crate) fn fit(py: Python<'_>, traces: Sources<'_>) -> PyResult<Model> {
    let sources = match traces {
        Sources::One(source) => vec![source],
        Sources::Several(sources) => sources,
    };
    let opened = sources.iter().map(|source| match source {
        Source::Opened(trace) => Ok(memtrace_trace::Trace::clone(&trace.0)),
        Source::Path(path) => memtrace_trace::Trace::open(path).map_err(refused),
    });
    let traces = opened.collect::<PyResult<Vec<_>>>()?;
    py.detach(|| memtrace_analysis::fit(&traces)).map(Model::new).map_err(refused)
}

/// Fits a law to figures that were measured elsewhere.
///
/// shapes: of the array the operator works on, one for each figure. bytes: the figures: working peaks or resident
/// sizes; `peak_bytes` of a prediction is then of the same kind. dtype: of the array, as NumPy writes it.
/// operator: what to call it. ValueError: fewer than three shapes, of several numbers of axes, or an unknown dtype.
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
/// runs: for each the shape, the bytes of its blocks, what happened to them in order (n allocates block n, -1 - n releases
/// it), and the most that was reserved for them. ValueError: fewer than three shapes, or events that are none of the blocks'.
#[pyfunction]
pub(crate) fn fit_dry_runs(py: Python<'_>, operator: &str, runs: Vec<Dry>) -> PyResult<Model> {
    let dry = |Dry(shape, blocks, events, reserved_peak)| DryRun { shape, blocks, events, reserved_peak };
    let runs: Vec<DryRun> = runs.into_iter().map(dry).collect();
    py.detach(|| sequences::fit_dry_runs(operator, &runs)).map(Model::new).map_err(refused)
}

/// Laws of operators: `memtrace.fit(traces)`, or `Model.load("model.json")`.
#[pyclass(frozen, module = "memtrace")]
pub(crate) struct Model(RwLock<memtrace_analysis::Model>);

/// What `Model.observe` is told: a span as a dict, or the shape of its input.
#[derive(FromPyObject)]
enum Span<'py> {
    Dict(Bound<'py, PyDict>),
    Shape(Vec<u64>),
}

#[pymethods]
impl Model {
    /// Reads a model file. A file that is none, or a newer program's, is a ValueError.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Model> {
        memtrace_analysis::Model::load(path).map(Model::new).map_err(refused)
    }

    /// Writes the model to a file, whole or not at all. ValueError: it cannot be written.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.read().save(path).map_err(refused)
    }

    /// This model and another as one. Laws of one operator, parameters, dtype, layout and versions become one: the better
    /// proved one, and what the runs of both say together. `memtrace merge` is the same.
    fn merge(&self, other: &Model) -> Model {
        Model::new(self.read().merge(&other.read()))
    }

    /// What was left out of the fit or done by a merge, and why, in sentences.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.read().notes.clone()
    }

    /// The traces it was fitted to, as dicts: path, sha256, command, host, kernel, cpus, memtrace, recorded_unix_s,
    /// recorded, operators, versions.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.read().sources)
    }

    /// Names of the operators that have laws, each once, in order.
    fn operators(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.read().laws.iter().map(|law| law.key.operator.clone()).collect();
        names.into_iter().collect()
    }

    /// What a call of `operator` needs for an input of `shape`, as a dict: what `memtrace predict --json` prints.
    ///
    /// operator: its name as recorded, or the last part of it. shape: lengths of the input's axes, in elements.
    /// dtype: as NumPy writes it ("f4"), needed if there are laws for several. Parameters of the operator are
    /// given by name, as are `layout`, `device`, `threads` and versions of libraries (scipy="1.17"). A law that was
    /// recorded with another release of a library than this process has is refused, unless any_version is true.
    /// Among the keys: peak_bytes and upper_bytes (of the working peak, the input not
    /// among them), input_bytes, output_bytes, once_bytes (per process), extrapolated. ValueError: no
    /// such law, or several, or a shape of another number of axes.
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
        to_python(py, &prediction)
    }

    /// Takes in what a call of `operator` needed; later predictions go by it, and `save` keeps it. An exact law stays as
    /// it is unless it is contradicted by more than 0.1 %: then it is no longer called exact.
    ///
    /// span: one of the spans of `Trace.report()`, or the shape of the input; then bytes is the working peak (the input
    /// not among it) and seconds the time, if that is known. Returns a dict: predicted_bytes (before),
    /// working_peak_bytes, expected_bytes (now), proof, note (why a span was left out, or what it changed).
    /// A shape was run by this process, so its law is found as `predict` finds it; a span says itself what it was run
    /// with. ValueError: no law for a span like this.
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

    /// Follows a call of `operator` while it runs: a `Follower` that is told of blocks as they come and forecasts the
    /// peak. Arguments as for `predict`.
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

    /// Chunks of an array of `shape` that let `workers` of `memory_limit` bytes each run `operator`, as a dict: what
    /// `memtrace recommend --format json` prints. Dask takes `tuple(map(tuple, plan["chunks"]))`.
    ///
    /// shape: lengths of the axes, in elements. workers: their number, or "auto". halo: extra cells per axis that a chunk
    /// needs on each side (default: none). whole_axes: axes to leave in one chunk. budget_fraction: the part of the limit a
    /// worker may use (default: the lower of Dask's spill and pause). baseline_bytes: what a worker holds before it starts
    /// (default: what the recorded processes held, 100 MB if nobody saw it, and 110 MB for Dask); warmed: after the operator
    /// was called in it, so that what this allocates once is among them. spare_bytes: what each task may need beside all that
    /// is counted for it. minimise: "time",
    /// "memory" or "tasks". source: "dask" (tasks of one graph that neighbours share, as with map_overlap), "storage" (each
    /// task reads its chunk and halo), or "waves" (a few blocks at a time, each from a graph of its own). storage_chunks: chunk lengths of
    /// the store; chunks are made of whole ones where these fit, and only of them if `aligned`. compare: "auto" for what Dask's own choice
    /// would need, or chunk lengths for what these would. device_memory_limit: memory of the GPU that each worker has to
    /// itself, where the operator uses one: chunks fit both, and `bound_by` says which memory rules.
    /// Among the keys: chunks (lengths along each axis), chunk_shape, tasks, predicted_task_bytes,
    /// predicted_worker_bytes, budget_bytes, predicted_seconds, why, pareto (other choices), waves, compare, tried.
    /// MemoryError: nothing fits; it names the smallest limit that would. ValueError: as for `predict`.
    #[pyo3(signature = (operator, shape, memory_limit, workers, threads_per_worker=1, halo=None,
                        whole_axes=Vec::new(), dtype=None, budget_fraction=None, baseline_bytes=None,
                        any_version=false, *, warmed=false, spare_bytes=0, minimise="time", source="dask",
                        storage_chunks=None, aligned=false, compare=None, device_memory_limit=None, **params))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn recommend<'py>(
        &self,
        py: Python<'py>,
        operator: &str,
        shape: Vec<u64>,
        memory_limit: u64,
        workers: Count,
        threads_per_worker: u64,
        halo: Option<Vec<u64>>,
        whole_axes: Vec<usize>,
        dtype: Option<&str>,
        budget_fraction: Option<f64>,
        baseline_bytes: Option<u64>,
        any_version: bool,
        warmed: bool,
        spare_bytes: u64,
        minimise: &str,
        source: &str,
        storage_chunks: Option<Vec<u64>>,
        aligned: bool,
        compare: Option<Other>,
        device_memory_limit: Option<u64>,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.read();
        let law = law(&model, py, operator, &shape, dtype, any_version, params)?;
        let known = Request::of(law, shape, memory_limit).map_err(refused)?;
        let workers = workers.workers()?;
        let request = Request {
            halo: halo.unwrap_or_else(|| known.halo.clone()),
            whole_axes,
            workers: if let Workers::Number(number) = workers { number } else { 1 },
            threads_per_worker,
            budget_fraction: budget_fraction.unwrap_or(known.budget_fraction),
            baseline_bytes: baseline_bytes.unwrap_or(known.baseline_bytes),
            once_bytes: if warmed { 0 } else { known.once_bytes },
            spare_bytes,
            device: device_memory_limit.map(|limit| Device::of(law, limit)).transpose().map_err(refused)?,
            source: one_of(
                &[("dask", From::Dask), ("storage", From::Storage), ("waves", From::Waves)],
                source,
            )?,
            storage_chunks,
            aligned,
            minimise: one_of(
                &[("time", Minimise::Time), ("memory", Minimise::Memory), ("tasks", Minimise::Tasks)],
                minimise,
            )?,
            ..known
        };
        let rival = compare.map(Other::rival).transpose()?;
        let bytes = |shape: &[u64]| law.bytes(shape);
        let answer = match workers {
            Workers::Number(_) => plan::recommend(&request, &bytes),
            Workers::Auto => plan::recommend_workers(&request, &bytes),
        };
        match answer.map_err(refused)? {
            Answer::Plan(mut plan) => {
                if let Some(rival) = rival {
                    let asked = Request { workers: plan.workers, ..request };
                    plan.compare = Some(rival.compared(&asked, &bytes).map_err(refused)?);
                }
                to_python(py, &plan)
            }
            Answer::Refusal(refusal) => Err(PyMemoryError::new_err(refusal.why)),
        }
    }

    /// How long an axis may be at most, so that one call of `operator` stays within memory, as a dict: the largest batch.
    ///
    /// shape: lengths of all axes; the one of `axis` does not matter. memory_limit: of the process, device_memory_limit: of
    /// its GPU, in bytes. multiple: lengths that are multiples of it. baseline_bytes: what the process holds before (default: what the
    /// recorded processes held). Keys: axis, length, shape, predicted_worker_bytes, budget_bytes, device, bound_by, why.
    /// MemoryError: not even the shortest fits. ValueError: as for `predict`, or no such axis.
    #[pyo3(signature = (operator, shape, axis, memory_limit, device_memory_limit=None, multiple=1, dtype=None,
                        baseline_bytes=None, any_version=false, **params))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn longest<'py>(
        &self,
        py: Python<'py>,
        operator: &str,
        shape: Vec<u64>,
        axis: usize,
        memory_limit: u64,
        device_memory_limit: Option<u64>,
        multiple: u64,
        dtype: Option<&str>,
        baseline_bytes: Option<u64>,
        any_version: bool,
        params: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.read();
        let law = law(&model, py, operator, &shape, dtype, any_version, params)?;
        let request = Request::alone(law, shape, memory_limit).map_err(refused)?;
        let request = Request {
            baseline_bytes: baseline_bytes.unwrap_or(request.baseline_bytes),
            device: device_memory_limit.map(|limit| Device::of(law, limit)).transpose().map_err(refused)?,
            ..request
        };
        match plan::longest(&request, axis, multiple, &|shape| law.bytes(shape)).map_err(refused)? {
            Reach::Longest(longest) => to_python(py, &longest),
            Reach::Refusal(refusal) => Err(PyMemoryError::new_err(refusal.why)),
        }
    }

    /// What `memtrace.plan` asks for, which has more kinds of graphs: `graph` is the JSON text of one.
    #[pyo3(signature = (graph, *, memory_limit=None, workers=None, threads=1, executor=None, baseline_bytes=None,
                        budget_fraction=None, any_version=false))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn plan_graph<'py>(
        &self,
        py: Python<'py>,
        graph: &str,
        memory_limit: Option<u64>,
        workers: Option<Count>,
        threads: u64,
        executor: Option<&str>,
        baseline_bytes: Option<u64>,
        budget_fraction: Option<f64>,
        any_version: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.read();
        let graph = Graph::parse(graph).map_err(refused)?;
        let executor = executor.map(|name| named_executor(name, threads)).transpose()?.or(graph.executor());
        let libraries = Libraries { versions: running(&model, py, graph.operators())?, any_version };
        if let (Some(limit), None) = (memory_limit, executor) {
            let worker = Process::dask_worker(recorded_bytes(&model));
            let limits = Limits {
                memory_limit_bytes: limit,
                budget_fraction: budget_fraction.unwrap_or(worker.budget_fraction),
                workers: workers.map_or(Ok(Workers::Number(1)), Count::workers)?,
                threads_per_worker: threads,
                baseline_bytes: baseline_bytes.unwrap_or(worker.baseline_bytes),
            };
            let answer = py.detach(|| graph::recommend(&model, &libraries, &graph, &limits));
            return match answer.map_err(refused)? {
                graph::Answer::Plan(plan) => to_python(py, &plan),
                graph::Answer::Refusal(refusal) => Err(PyMemoryError::new_err(refusal.why)),
            };
        }
        if workers.is_some() {
            return Err(refused("workers are for whole arrays that are to be cut; this graph runs as it is"));
        }
        let executor = executor.unwrap_or(Executor::Sequential);
        let forecast =
            py.detach(|| graph::foretell(&model, &libraries, &graph, executor)).map_err(refused)?;
        if let Some(limit) = memory_limit {
            let process = executor.process(forecast.baseline_bytes);
            let baseline = baseline_bytes.unwrap_or(process.baseline_bytes);
            graph::check(&forecast, limit, budget_fraction.unwrap_or(process.budget_fraction), baseline)
                .map_err(|refusal| PyMemoryError::new_err(refusal.why))?;
        }
        to_python(py, &forecast)
    }
}

impl Model {
    fn new(model: memtrace_analysis::Model) -> Model {
        Model(RwLock::new(model))
    }

    fn read(&self) -> RwLockReadGuard<'_, memtrace_analysis::Model> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Versions of the libraries of this process that laws of these operators name.
fn running<'a>(
    model: &memtrace_analysis::Model,
    py: Python<'_>,
    operators: impl IntoIterator<Item = &'a str>,
) -> PyResult<BTreeMap<String, String>> {
    let laws = operators.into_iter().flat_map(|operator| model.of_operator(operator));
    let named: BTreeSet<&String> = laws.flat_map(|law| law.key.versions.keys()).collect();
    if named.is_empty() {
        return Ok(BTreeMap::new());
    }
    py.import("memtrace._versions")?.call_method1("running", (named,))?.extract()
}

/// The law that answers in this process: for its releases of libraries.
fn law<'a>(
    model: &'a memtrace_analysis::Model,
    py: Python<'_>,
    operator: &str,
    shape: &[u64],
    dtype: Option<&str>,
    any_version: bool,
    params: Option<&Bound<'_, PyDict>>,
) -> PyResult<&'a Law> {
    let (params, libraries) = (parameters(params)?, running(model, py, [operator])?);
    let dims = Some(shape.len());
    model.find(&Ask { operator, dtype, params, libraries, any_version, dims }).map_err(refused)
}
