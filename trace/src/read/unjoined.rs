//! The rows of `spans` while a recording runs, or after it died: those of the table and of its parts, in
//! the order of their numbers, as they are once the parts have been joined.
//!
//! A part has spans in the order of their ends. Where a span has several rows, the first of them is
//! right, and parts come before the table; but the largest of its `live_bytes_at_end`: they are known
//! last, and for spans in parts the table has a row that says only this.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave_record_batch;

use crate::column::{Columns, JsonBytes};
use crate::error::{Error, Result};
use crate::files;
use crate::read::file::{self, Readable, Within};
use crate::read::limits;
use crate::table::Table;

/// So many numbers are read at once: a stretch of them.
const STRETCH: u32 = 16 * 1024;

const NUMBER: &str = "span";
const AT_END: &str = "live_bytes_at_end";

/// See the module: its rows, some thousand at a time, of some columns, of which one is the number.
pub(crate) struct Unjoined {
    files: Vec<Numbered>,
    table: PathBuf,
    names: Vec<String>,
    /// Stretches that are still to be read.
    left: BTreeSet<u32>,
}

/// A file, and the stretches that it has rows of.
struct Numbered {
    file: Readable,
    stretches: BTreeSet<u32>,
}

impl Unjoined {
    /// The spans of a trace, if they have parts.
    pub(crate) fn open(trace: &Path, names: &[&str]) -> Result<Option<Unjoined>> {
        let paths = paths(trace)?;
        if paths.is_empty() {
            return Ok(None);
        }
        let count = paths.len();
        let files = paths.into_iter().map(|path| Numbered::open(Readable::new(path, count)?));
        let files = files.collect::<Result<Vec<_>>>()?;
        let left = files.iter().flat_map(|file| &file.stretches).copied().collect();
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(Some(Unjoined { files, table: files::whole_path(trace, Table::Spans), names, left }))
    }

    /// The path that errors name.
    pub(crate) fn path(&self) -> &Path {
        &self.table
    }

    fn read(&self, stretch: u32) -> Result<RecordBatch> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let first = u64::from(stretch) * u64::from(STRETCH);
        let within = [Within { column: NUMBER, range: first..=first + u64::from(STRETCH) - 1 }];
        let mut batches = Vec::new();
        for Numbered { file, stretches } in self.files.iter().filter(|file| file.stretches.contains(&stretch))
        {
            let within = if stretches.len() == 1 { &[] } else { within.as_slice() };
            file::each_batch(
                file,
                &names,
                |_, _| true,
                within,
                |batch| {
                    batches.push(batch);
                    Ok(())
                },
            )?;
        }
        self.merged(&batches, &names)
    }

    /// The rows of these batches, each span once.
    fn merged(&self, batches: &[RecordBatch], names: &[&str]) -> Result<RecordBatch> {
        let mut rows: Vec<(u32, usize, usize)> = Vec::new();
        for (place, batch) in batches.iter().enumerate() {
            let json = JsonBytes::default();
            let columns = Columns::new(&self.table, Table::Spans, batch, names, &json);
            let numbers = columns.required::<UInt32Type>(NUMBER)?;
            rows.extend(numbers.iter().enumerate().map(|(row, number)| (*number, place, row)));
        }
        rows.sort_unstable();
        let fields = |batch: &RecordBatch| batch.schema_ref().fields().clone();
        if batches.windows(2).any(|two| fields(&two[0]) != fields(&two[1])) {
            return Err(Error::damaged(&self.table)("its parts have other columns"));
        }
        taken(batches, &rows).map_err(Error::damaged(&self.table))
    }
}

/// Of several rows with one number the first, with the largest live bytes at the end.
fn taken(batches: &[RecordBatch], rows: &[(u32, usize, usize)]) -> Result<RecordBatch, ArrowError> {
    let same = |a: &(u32, usize, usize), b: &(u32, usize, usize)| a.0 == b.0;
    let first: Vec<(usize, usize)> = rows.chunk_by(same).map(|rows| (rows[0].1, rows[0].2)).collect();
    let batch = interleave_record_batch(&batches.iter().collect::<Vec<_>>(), &first)?;
    let Ok(column) = batch.schema().index_of(AT_END) else { return Ok(batch) };
    let bytes: Option<Vec<_>> =
        batches.iter().map(|batch| batch.column(column).as_primitive_opt::<UInt64Type>()).collect();
    let Some(bytes) = bytes.filter(|_| first.len() < rows.len()) else { return Ok(batch) };
    let largest = |rows: &[(u32, usize, usize)]| {
        rows.iter().map(|(_, batch, row)| bytes[*batch].value(*row)).max().unwrap_or(0)
    };
    let mut columns = batch.columns().to_vec();
    columns[column] = Arc::new(rows.chunk_by(same).map(largest).collect::<UInt64Array>());
    RecordBatch::try_new(batch.schema(), columns)
}

/// Parts of spans, and then their table; nothing where there are no parts.
pub(crate) fn paths(trace: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = files::parts_of(trace, Table::Spans)?;
    if !paths.is_empty() {
        paths.extend(files::of_table(trace, Table::Spans)?);
    }
    limits::at_most(trace, "the files of a table", paths.len() as u64, limits::PARTS)?;
    Ok(paths)
}

impl Numbered {
    fn open(file: Readable) -> Result<Numbered> {
        let mut stretches = BTreeSet::new();
        let names = [NUMBER];
        file::read_columns(
            &file,
            Table::Spans,
            &names,
            |_, _| true,
            |columns| {
                let numbers = columns.required::<UInt32Type>(NUMBER)?;
                stretches.extend(numbers.iter().map(|number| number / STRETCH));
                Ok(())
            },
        )?;
        Ok(Numbered { file, stretches })
    }
}

impl Iterator for Unjoined {
    type Item = Result<RecordBatch>;

    /// Ends after an error.
    fn next(&mut self) -> Option<Self::Item> {
        let stretch = self.left.pop_first()?;
        let batch = self.read(stretch);
        if batch.is_err() {
            self.left.clear();
        }
        Some(batch)
    }
}
