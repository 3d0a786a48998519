//! Tables as Arrow record batches.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::error::{Error, Result};
use crate::read::file::{self, Readable};
use crate::read::limits::Allowance;
use crate::read::trace::Trace;
use crate::read::unjoined::Unjoined;
use crate::table::Table;

/// Rows of a batch: some megabytes of `allocations`.
const BATCH_ROWS: usize = 128 * 1024;

impl Trace {
    /// All rows of a table in the order they were written, each batch with the columns of
    /// [`Table::schema`]; others that a file has are left out.
    /// One row group is in memory at a time.
    ///
    /// # Errors
    /// The directory cannot be read, or a complete trace lacks the table. Damage is an item.
    pub fn batches(&self, table: Table) -> Result<Batches> {
        let schema = table.schema();
        let unjoined = self.unjoined(table, &names(&schema))?;
        let files = if unjoined.is_none() { self.files(table)? } else { Vec::new() };
        Ok(Batches { table, schema, unjoined, files: files.into_iter(), open: None })
    }

    /// How many rows a table has, from the ends of its files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn row_count(&self, table: Table) -> Result<u64> {
        if let Some(unjoined) = self.unjoined(table, &["span"])? {
            return unjoined.map(|batch| Ok(batch?.num_rows() as u64)).sum();
        }
        let mut rows = 0u64;
        for file in self.files(table)? {
            let groups = file::groups(&file.path)?;
            rows = groups.iter().fold(rows, |sum, group| sum.saturating_add(group.num_rows().max(0) as u64));
        }
        Ok(rows)
    }
}

/// What [`Trace::batches`] returns. Ends after an error.
pub struct Batches {
    table: Table,
    schema: SchemaRef,
    unjoined: Option<Unjoined>,
    files: std::vec::IntoIter<Readable>,
    open: Option<Open>,
}

/// The file that is being read.
struct Open {
    file: Readable,
    reader: ParquetRecordBatchReader,
    allowance: Allowance,
}

impl Batches {
    /// The columns of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(unjoined) = &mut self.unjoined {
            let Some(batch) = unjoined.next().transpose()? else { return Ok(None) };
            let path = unjoined.path().to_owned();
            return self.arranged(&path, &batch).map(Some);
        }
        loop {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => {
                    let Some(file) = self.files.next() else { return Ok(None) };
                    Open { reader: self.start(&file.path)?, allowance: file.allowance(), file }
                }
            };
            let path = open.file.path.as_path();
            if let Some(batch) = file::guarded(path, || open.reader.next().transpose())? {
                open.allowance.take(path, batch.get_array_memory_size() as u64)?;
                let batch = self.arranged(path, &batch)?;
                self.open = Some(open);
                return Ok(Some(batch));
            }
        }
    }

    fn start(&self, path: &Path) -> Result<ParquetRecordBatchReader> {
        file::open(path, &names(&self.schema), BATCH_ROWS)
    }

    /// The batch with this version's columns in their order.
    fn arranged(&self, path: &Path, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
            Some(array) => self.checked(path, field.name(), array, field.data_type()),
            None => Err(self.wrong(path, field.name(), "is missing".into())),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(self.schema.clone(), columns).map_err(Error::damaged(path))
    }

    /// A column that another program may read unchecked: of the right type, with keys inside its
    /// dictionary.
    fn checked(&self, path: &Path, name: &str, array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
        if array.data_type() != wanted {
            let reason = format!("has type {} instead of {wanted}", array.data_type());
            return Err(self.wrong(path, name, reason));
        }
        if let Some(dictionary) = array.as_dictionary_opt::<UInt8Type>() {
            let largest = dictionary.keys().iter().flatten().max();
            if largest.is_some_and(|key| usize::from(key) >= dictionary.values().len()) {
                return Err(self.wrong(path, name, "points past its dictionary".into()));
            }
        }
        Ok(array.clone())
    }

    fn wrong(&self, path: &Path, name: &str, reason: String) -> Error {
        Error::Column { path: path.to_owned(), table: self.table.name(), column: name.to_owned(), reason }
    }
}

fn names(schema: &SchemaRef) -> Vec<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.read();
        if batch.is_err() {
            (self.files, self.open) = (Vec::new().into_iter(), None);
        }
        batch.transpose()
    }
}
