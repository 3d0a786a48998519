//! Recorded traces.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memtrace_analysis::report::document::Report;
use memtrace_analysis::report::json::{Listed, report};
use memtrace_analysis::report::{page, window};
use memtrace_analysis::units::Bytes;
use memtrace_trace::Table as Which;
use pyo3::prelude::*;

use crate::convert::{refused, to_python};
use crate::table::Table;
use crate::{notebook, operators};

/// A recorded trace: `memtrace.load("memtrace.python.1234")`.
///
/// Each table is an attribute that any Arrow library takes; docs/trace-format.md has their columns. Sizes are
/// bytes, times nanoseconds since the recording started.
#[pyclass(frozen, module = "memtrace")]
pub(crate) struct Trace(pub(crate) Arc<memtrace_trace::Trace>);

impl Trace {
    pub(crate) fn at(path: &Path) -> PyResult<Trace> {
        memtrace_trace::Trace::open(path).map(|trace| Trace(Arc::new(trace))).map_err(refused)
    }

    fn table(&self, table: Which) -> Table {
        Table::of_files(self.0.clone(), table)
    }
}

#[pymethods]
impl Trace {
    #[new]
    fn open(path: PathBuf) -> PyResult<Trace> {
        Trace::at(&path)
    }

    /// The trace's directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.0.directory().to_owned()
    }

    /// What was recorded, by what, its sums, and what was lost: `meta.json` as a dict.
    #[getter]
    fn meta<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.0.meta())
    }

    /// One row per operator, the one with the largest working peak first.
    ///
    /// Figures are those of its largest call in the steady state (after the first of its process), if it has one.
    /// Columns: operator, calls; total_ns, all calls together; inputs, JSON with name, shape and dtype of each array;
    /// input_bytes, output_bytes, working_peak_bytes, net_peak_bytes; one_time_bytes, the most in a process;
    /// resident_peak_bytes (null: not sampled); allocations, blocks; device_peak_bytes (null: no memory of a device was
    /// seen).
    #[getter]
    fn operators(&self, py: Python<'_>) -> PyResult<Table> {
        let batch = py.detach(|| operators::batch(&self.0))?;
        Ok(Table::of_batch("operators", batch))
    }

    /// One row per block.
    #[getter]
    fn allocations(&self) -> Table {
        self.table(Which::Allocations)
    }

    /// One row per execution of an operator.
    #[getter]
    fn spans(&self) -> Table {
        self.table(Which::Spans)
    }

    /// One row per distinct allocation call stack; its frames are in `frames`.
    #[getter]
    fn sites(&self) -> Table {
        self.table(Which::Sites)
    }

    /// One row per frame of the stacks' prefix tree.
    #[getter]
    fn frames(&self) -> Table {
        self.table(Which::Frames)
    }

    /// One row per process image.
    #[getter]
    fn processes(&self) -> Table {
        self.table(Which::Processes)
    }

    /// One row per thread that recorded events.
    #[getter]
    fn threads(&self) -> Table {
        self.table(Which::Threads)
    }

    /// One row per executable or library mapped into a process.
    #[getter]
    fn modules(&self) -> Table {
        self.table(Which::Modules)
    }

    /// Live, mapped and resident bytes over time.
    #[getter]
    fn timeline(&self) -> Table {
        self.table(Which::Timeline)
    }

    /// One row per thing the kernel saw.
    #[getter]
    fn kernel_events(&self) -> Table {
        self.table(Which::KernelEvents)
    }

    /// One row per sampled memory access.
    #[getter]
    fn accesses(&self) -> Table {
        self.table(Which::Accesses)
    }

    /// One row per large block that a plan places.
    #[getter]
    fn placements(&self) -> Table {
        self.table(Which::Placements)
    }

    /// One row per call stack and kind of the blocks without rows of their own.
    #[getter]
    fn folded(&self) -> Table {
        self.table(Which::Folded)
    }

    /// One row per process and device whose memory it had.
    #[getter]
    fn devices(&self) -> Table {
        self.table(Which::Devices)
    }

    /// Peaks, operators, sites, processes and losses as a dict: what `memtrace report --json --stacks`
    /// prints.
    ///
    /// Raises:
    ///     ValueError: A table is damaged.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let listed = Listed { stacks: true, ..Listed::default() };
        let report = py.detach(|| report(&self.0, listed)).map_err(refused)?;
        to_python(py, &report)
    }

    /// What was needed in a part of the recording, in all threads and processes, as a dict: the largest sum of bytes
    /// that were allocated in that time and not yet released.
    ///
    /// Args:
    ///     start_ns: The beginning, nanoseconds since the recording started.
    ///     end_ns: The end (default: the end of the recording).
    ///     most: How many sites and operators to return.
    ///
    /// Returns:
    ///     peak_bytes, peak_ns; sites, the places with most of it (place, bytes); operators, those with the largest
    ///         working peak that began after `start_ns` (operator, working_peak_bytes).
    ///
    /// Raises:
    ///     ValueError: Blocks of that time have no rows (`--aggregate`, `--min-size`, `--max-trace-size`).
    #[pyo3(signature = (start_ns, end_ns=None, most=5))]
    fn during<'py>(
        &self,
        py: Python<'py>,
        start_ns: i64,
        end_ns: Option<i64>,
        most: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let end = end_ns.unwrap_or(i64::MAX);
        let needed = py.detach(|| window::during(&self.0, start_ns, end, most)).map_err(refused)?;
        to_python(py, &needed)
    }

    /// The page of the trace in a frame, for a notebook: what `memtrace report --html` writes.
    ///
    /// It needs no network, and its script reaches nothing outside of the frame.
    ///
    /// Args:
    ///     height: Of the frame, in pixels.
    ///
    /// Returns:
    ///     The page, which notebooks show where it is the value of a cell.
    ///
    /// Raises:
    ///     ValueError: A table is damaged.
    ///     FileNotFoundError: There is no command `memtrace`.
    #[pyo3(signature = (height=600))]
    fn show<'py>(slf: &Bound<'py, Self>, height: u32) -> PyResult<Bound<'py, PyAny>> {
        let page = slf.py().import("memtrace._notebook.page")?;
        page.call_method1("of_trace", (slf, height))
    }

    /// Draws live, resident and mapped bytes over time, with the peak (matplotlib).
    ///
    /// Args:
    ///     ax: The axes to draw on (default: new ones).
    ///
    /// Returns:
    ///     The axes.
    ///
    /// Raises:
    ///     ImportError: matplotlib is not installed.
    ///     ValueError: A table is damaged.
    #[pyo3(signature = (*, ax=None))]
    fn plot<'py>(slf: &Bound<'py, Self>, ax: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        notebook::plot("trace", slf, ax)
    }

    /// The report without what may be long: spans, processes and call stacks.
    fn _summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = py.detach(|| report(&self.0, Listed::default())).map_err(refused)?;
        let (operators, processes, sites) = (Vec::new(), Vec::new(), Vec::new());
        to_python(py, &Report { operators, processes, sites, ..report })
    }

    /// The times of the page's timeline, and curves of all processes together.
    fn _timeline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let timeline = py.detach(|| page::timeline(&self.0)).map_err(refused)?;
        to_python(py, &(&timeline.times, timeline.together()))
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        notebook::summary("trace", slf)
    }

    fn __repr__(&self) -> String {
        let peak = Bytes(self.0.meta().peak.live_bytes);
        format!("<memtrace trace {}: peak {peak} live>", self.0.directory().display())
    }
}
