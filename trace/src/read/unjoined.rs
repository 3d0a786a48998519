//! The rows of `spans` while a recording runs, or after it died: those of the table and of its parts, in
//! the order of their numbers, as they are once the parts have been joined.
//!
//! A part has spans in the order of their ends. Where a span has several rows, the first of them is
//! right, and parts come before the table; but the largest of its `live_bytes_at_end`: they are known
//! last, and for spans in parts the table has a row that says only this.
//!
//! While a recording runs, rows go from the table into parts: the table is read first, as it is then,
//! and what it has no more is in the parts that are listed after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
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
use crate::read::file::{self, Readable};
use crate::read::limits::{self, Allowance};
use crate::read::within::{Values, Within};
use crate::table::Table;

/// So many numbers are read at once: a stretch of them.
const STRETCH: u32 = 16 * 1024;
/// Rows that numbers of a stretch may have: two for each span, and as many again.
const STRETCH_ROWS: u64 = 4 * STRETCH as u64;
/// Rows of a batch: what its JSON takes is bounded for each.
const BATCH_ROWS: usize = 1024;
/// Stretches of all files together: each opens its file anew. A part has a few.
const STRETCHES: u64 = 1 << 18;
/// A table that is longer is read as parts are.
const MEMORY_BYTES: u64 = 64 << 20;

const NUMBER: &str = "span";
const AT_END: &str = "live_bytes_at_end";

/// A span's number, and which batch and row it is in.
type Place = (u32, usize, usize);

/// See the module: its rows, some thousand at a time, of some columns, of which one is the number.
pub(crate) struct Unjoined {
    files: Vec<Numbered>,
    table: InMemory,
    path: PathBuf,
    names: Vec<String>,
    /// Stretches that are still to be read.
    left: BTreeSet<u32>,
    /// What was read of one.
    ready: std::vec::IntoIter<RecordBatch>,
}

/// A file, and the stretches that it has rows of.
struct Numbered {
    file: Readable,
    stretches: BTreeSet<u32>,
}

/// The rows of the table.
#[derive(Default)]
struct InMemory {
    batches: Vec<RecordBatch>,
    /// By stretch.
    rows: BTreeMap<u32, Vec<Place>>,
}

impl Unjoined {
    /// The spans of a trace; `None` if they are in one file that is read as it is.
    pub(crate) fn open(trace: &Path, names: &[&str]) -> Result<Option<Unjoined>> {
        let parts = || files::parts_of(trace, Table::Spans);
        let is_long = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.len() > MEMORY_BYTES);
        let mut before = parts()?;
        loop {
            let table = files::of_table(trace, Table::Spans)?;
            let (in_memory, as_parts) = match table.iter().any(is_long) {
                true if before.is_empty() => return Ok(None),
                true => (InMemory::default(), table),
                false => (InMemory::read(table, names)?, Vec::new()),
            };
            let after = parts()?;
            // Where parts are gone, the recording ended meanwhile: they are in the new table.
            if before.iter().all(|part| after.contains(part)) {
                return Self::of(trace, after, as_parts, in_memory, names).map(Some);
            }
            before = after;
        }
    }

    fn of(
        trace: &Path,
        mut paths: Vec<PathBuf>,
        table: Vec<PathBuf>,
        in_memory: InMemory,
        names: &[&str],
    ) -> Result<Unjoined> {
        paths.extend(table);
        limits::at_most(trace, "the files of a table", paths.len() as u64, limits::PARTS)?;
        let (count, mut stretches) = (paths.len(), 0);
        let mut files = Vec::with_capacity(count);
        for path in paths {
            let file = Numbered::open(Readable::new(path, count)?)?;
            stretches += file.stretches.len() as u64;
            limits::at_most(&file.file.path, "the stretches of its numbers", stretches, STRETCHES)?;
            files.push(file);
        }
        let of_files = files.iter().flat_map(|file| &file.stretches).copied();
        Ok(Unjoined {
            left: of_files.chain(in_memory.rows.keys().copied()).collect(),
            files,
            table: in_memory,
            path: files::whole_path(trace, Table::Spans),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            ready: Vec::new().into_iter(),
        })
    }

    /// The path that errors name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The rows of a stretch, each span once.
    fn read(&self, stretch: u32) -> Result<Vec<RecordBatch>> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let first = u64::from(stretch) * u64::from(STRETCH);
        let values = Values::Range(first..=first + u64::from(STRETCH) - 1);
        let within = [Within { column: NUMBER, values }];
        let (mut batches, mut rows) = (Vec::new(), Vec::new());
        for Numbered { file, stretches } in self.files.iter().filter(|file| file.stretches.contains(&stretch))
        {
            let within = if stretches.len() == 1 { &[] } else { within.as_slice() };
            let keep = |batch: RecordBatch| {
                rows.extend(numbered(&file.path, &batch, &names, batches.len())?);
                batches.push(batch);
                self.check(&rows)
            };
            file::each_batch(file, &names, |_, _| true, within, keep)?;
        }
        self.table.add(stretch, &mut batches, &mut rows);
        self.check(&rows)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        self.merged(&batches, rows)
    }

    /// Fails where numbers of a stretch have too many rows.
    fn check(&self, rows: &[Place]) -> Result<()> {
        limits::at_most(&self.path, "the rows of one stretch", rows.len() as u64, STRETCH_ROWS)
    }

    fn merged(&self, batches: &[RecordBatch], mut rows: Vec<Place>) -> Result<Vec<RecordBatch>> {
        rows.sort_unstable();
        let fields = |batch: &RecordBatch| batch.schema_ref().fields().clone();
        if batches.windows(2).any(|two| fields(&two[0]) != fields(&two[1])) {
            return Err(Error::damaged(&self.path)("its parts have other columns"));
        }
        let all = taken(batches, &rows).map_err(Error::damaged(&self.path))?;
        let starts = (0..all.num_rows()).step_by(BATCH_ROWS);
        Ok(starts.map(|start| all.slice(start, BATCH_ROWS.min(all.num_rows() - start))).collect())
    }
}

/// Number, batch and row of each row of a batch.
fn numbered(path: &Path, batch: &RecordBatch, names: &[&str], place: usize) -> Result<Vec<Place>> {
    let json = JsonBytes::default();
    let columns = Columns::new(path, Table::Spans, batch, names, &json);
    let numbers = columns.required::<UInt32Type>(NUMBER)?;
    Ok(numbers.iter().enumerate().map(|(row, number)| (*number, place, row)).collect())
}

impl InMemory {
    fn read(paths: Vec<PathBuf>, names: &[&str]) -> Result<InMemory> {
        let mut table = InMemory::default();
        for path in paths {
            let file = Readable::new(path, 1)?;
            let mut allowance = Allowance::held(file.bytes);
            let keep = |batch: RecordBatch| {
                let index = batch.num_rows() * size_of::<Place>();
                allowance.take(&file.path, (batch.get_array_memory_size() + index) as u64)?;
                for row in numbered(&file.path, &batch, names, table.batches.len())? {
                    table.rows.entry(row.0 / STRETCH).or_default().push(row);
                }
                table.batches.push(batch);
                Ok(())
            };
            file::each_batch(&file, names, |_, _| true, &[], keep)?;
        }
        Ok(table)
    }

    /// Adds the rows of a stretch, and the batches that they are in.
    fn add(&self, stretch: u32, batches: &mut Vec<RecordBatch>, rows: &mut Vec<Place>) {
        let (mut last, mut place) = (None, 0);
        for &(number, batch, row) in self.rows.get(&stretch).into_iter().flatten() {
            if last != Some(batch) {
                (last, place) = (Some(batch), batches.len());
                batches.push(self.batches[batch].clone());
            }
            rows.push((number, place, row));
        }
    }
}

/// Of several rows with one number the first, with the largest live bytes at the end.
fn taken(batches: &[RecordBatch], rows: &[Place]) -> Result<RecordBatch, ArrowError> {
    let same = |a: &Place, b: &Place| a.0 == b.0;
    let first: Vec<(usize, usize)> = rows.chunk_by(same).map(|rows| (rows[0].1, rows[0].2)).collect();
    let batch = interleave_record_batch(&batches.iter().collect::<Vec<_>>(), &first)?;
    let Ok(column) = batch.schema().index_of(AT_END) else { return Ok(batch) };
    let bytes: Option<Vec<_>> =
        batches.iter().map(|batch| batch.column(column).as_primitive_opt::<UInt64Type>()).collect();
    let Some(bytes) = bytes.filter(|_| first.len() < rows.len()) else { return Ok(batch) };
    let largest =
        |rows: &[Place]| rows.iter().map(|(_, batch, row)| bytes[*batch].value(*row)).max().unwrap_or(0);
    let mut columns = batch.columns().to_vec();
    columns[column] = Arc::new(rows.chunk_by(same).map(largest).collect::<UInt64Array>());
    RecordBatch::try_new(batch.schema(), columns)
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
        loop {
            if let Some(batch) = self.ready.next() {
                return Some(Ok(batch));
            }
            let stretch = self.left.pop_first()?;
            match self.read(stretch) {
                Ok(batches) => self.ready = batches.into_iter(),
                Err(error) => {
                    self.left.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
