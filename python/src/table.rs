//! Tables of a trace as Arrow data that other libraries take over without copying it.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use memtrace_trace::Trace;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::convert::{refused, to_python};
use crate::{first, notebook};

/// Names that the Arrow PyCapsule interface gives to its capsules.
const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// A table of a trace, read when it is used: any library that knows the Arrow PyCapsule interface takes it.
///
/// `polars.DataFrame(table)`, `pyarrow.table(table)`, `pandas.DataFrame.from_arrow(table)`, and by its name in
/// DuckDB's SQL. Rows are passed on in batches, without a copy; one row group is in memory at a time. Each use
/// reads the files again. `len(table)` is the number of rows.
#[pyclass(frozen, module = "memtrace")]
pub(crate) struct Table {
    name: &'static str,
    rows: Rows,
}

/// Where rows come from.
enum Rows {
    Files(Arc<Trace>, memtrace_trace::Table),
    Memory(RecordBatch),
}

impl Table {
    pub(crate) fn of_files(trace: Arc<Trace>, table: memtrace_trace::Table) -> Table {
        Table { name: table.name(), rows: Rows::Files(trace, table) }
    }

    pub(crate) fn of_batch(name: &'static str, batch: RecordBatch) -> Table {
        Table { name, rows: Rows::Memory(batch) }
    }

    fn schema(&self) -> SchemaRef {
        match &self.rows {
            Rows::Files(_, table) => table.schema(),
            Rows::Memory(batch) => batch.schema(),
        }
    }

    fn reader(&self) -> PyResult<Box<dyn RecordBatchReader + Send>> {
        Ok(match &self.rows {
            Rows::Files(trace, table) => {
                let batches = trace.batches(*table).map_err(refused)?;
                let external = |error| ArrowError::ExternalError(Box::new(error));
                Box::new(RecordBatchIterator::new(batches.map(move |b| b.map_err(external)), table.schema()))
            }
            Rows::Memory(batch) => Box::new(RecordBatchIterator::new([Ok(batch.clone())], batch.schema())),
        })
    }
}

#[pymethods]
impl Table {
    /// The table's name in the trace.
    #[getter]
    fn name(&self) -> &str {
        self.name
    }

    /// Names of the columns, in order; docs/trace-format.md says what they mean.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> PyResult<usize> {
        match &self.rows {
            Rows::Files(trace, table) => {
                trace.row_count(*table).map(|rows| rows.try_into().unwrap_or(usize::MAX)).map_err(refused)
            }
            Rows::Memory(batch) => Ok(batch.num_rows()),
        }
    }

    /// True also without rows; Python would read files to count them otherwise.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!(
            "<memtrace table {}: {} rows of {}>",
            self.name,
            self.__len__()?,
            self.columns().join(", ")
        ))
    }

    /// The first rows, as lists.
    fn _first<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyAny>> {
        let mut rows = Vec::new();
        for batch in self.reader()? {
            rows.extend(first::rows(&batch.map_err(refused)?, most - rows.len()));
            if rows.len() == most {
                break;
            }
        }
        to_python(py, &rows)
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        notebook::summary("rows", slf)
    }

    /// The rows, as a capsule with an Arrow C stream.
    ///
    /// Args:
    ///     requested_schema: Ignored, as the interface allows; the columns are those of `__arrow_c_schema__`.
    ///
    /// Returns:
    ///     The capsule.
    ///
    /// Raises:
    ///     ValueError: A file cannot be read.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        PyCapsule::new(py, FFI_ArrowArrayStream::new(self.reader()?), Some(STREAM.to_owned()))
    }

    /// The columns, as a capsule with an Arrow C schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema().as_ref()).map_err(refused)?;
        PyCapsule::new(py, schema, Some(SCHEMA.to_owned()))
    }
}
