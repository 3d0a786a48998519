//! Reads one Parquet file batch by batch, in bounded memory.

use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
    RowFilter,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};

use crate::column::{Columns, JsonBytes};
use crate::error::{Error, Result};
use crate::read::limits::Allowance;
use crate::read::within::Within;
use crate::read::{end, pages};
use crate::table::Table;

/// Rows decoded at once.
const BATCH_ROWS: usize = 8 * 1024;

/// Passes the batches of some columns to `each`, in order, of the row groups of which `wanted` says
/// yes to their number and metadata.
pub(crate) fn read_columns(
    file: &Readable,
    table: Table,
    names: &[&str],
    wanted: impl Fn(usize, &RowGroupMetaData) -> bool,
    each: impl FnMut(&Columns) -> Result<()>,
) -> Result<()> {
    read_rows(file, table, names, wanted, &[], each)
}

/// The same without rows of which one of the columns in `within` has no such value: where these are
/// most of a row group, the other columns are hardly decoded. Rows that cannot be judged that way
/// are passed on.
pub(crate) fn read_rows(
    file: &Readable,
    table: Table,
    names: &[&str],
    wanted: impl Fn(usize, &RowGroupMetaData) -> bool,
    within: &[Within],
    mut each: impl FnMut(&Columns) -> Result<()>,
) -> Result<()> {
    each_batch(file, names, wanted, within, |batch| {
        each(&Columns::new(&file.path, table, &batch, names, &JsonBytes::default()))
    })
}

/// The same with the batches as they are.
pub(crate) fn each_batch(
    file: &Readable,
    names: &[&str],
    wanted: impl Fn(usize, &RowGroupMetaData) -> bool,
    within: &[Within],
    mut each: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let (path, mut allowance) = (file.path.as_path(), file.allowance);
    let end = End::read(path)?;
    // One at a time: a selection of rows takes memory too.
    for group in end.groups(wanted) {
        let mut batches = end.open(path, names, vec![group], within, BATCH_ROWS)?;
        while let Some(batch) = guarded(path, || batches.next().transpose())? {
            allowance.take(path, batch.get_array_memory_size() as u64)?;
            each(batch)?;
        }
    }
    Ok(())
}

/// What the end of a file says about its row groups, without reading them.
pub(crate) fn groups(path: &Path) -> Result<Vec<RowGroupMetaData>> {
    Ok(End::read(path)?.metadata.metadata().row_groups().to_vec())
}

/// Opens some columns of a file; the caller must be [`guarded`] when it reads.
pub(crate) fn open(path: &Path, names: &[&str], batch_rows: usize) -> Result<ParquetRecordBatchReader> {
    let end = End::read(path)?;
    let groups = end.groups(|_, _| true);
    end.open(path, names, groups, &[], batch_rows)
}

/// A file of a table, and what reading it may take.
#[derive(Debug, Clone)]
pub(crate) struct Readable {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    allowance: Allowance,
}

impl Readable {
    /// One of so many files of a table.
    pub(crate) fn new(path: PathBuf, files: usize) -> Result<Readable> {
        let bytes = path.metadata().map_err(Error::io("read", &path))?.len();
        Ok(Readable { path, bytes, allowance: Allowance::decoded(bytes, files) })
    }

    /// The same for a part of it that is read on its own, with these of so many rows.
    pub(crate) fn part(&self, rows: u64, of: u64) -> Readable {
        Readable { allowance: self.allowance.part(rows, of), ..self.clone() }
    }

    /// For a reader that counts by itself what it decodes.
    pub(crate) fn allowance(&self) -> Allowance {
        self.allowance
    }
}

/// Files up to this size are read at once: the library requests them in many pieces.
const SMALL_BYTES: u64 = 1 << 20;

/// A file to read from.
#[derive(Clone)]
pub(crate) enum Input {
    /// What is in it.
    Small(Bytes),
    Large(Arc<File>),
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Input> {
        Self::read(path).map_err(Error::io("read", path))
    }

    fn read(path: &Path) -> std::io::Result<Input> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        if length > SMALL_BYTES {
            return Ok(Input::Large(Arc::new(file)));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        file.by_ref().take(SMALL_BYTES).read_to_end(&mut bytes)?;
        Ok(Input::Small(bytes.into()))
    }
}

impl Length for Input {
    fn len(&self) -> u64 {
        match self {
            Input::Small(bytes) => bytes.len() as u64,
            Input::Large(file) => file.len(),
        }
    }
}

impl ChunkReader for Input {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Box<dyn Read>, ParquetError> {
        Ok(match self {
            Input::Small(bytes) => Box::new(bytes.get_read(start)?),
            Input::Large(file) => Box::new(file.get_read(start)?),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self {
            Input::Small(bytes) => bytes.get_bytes(start, length),
            Input::Large(file) => file.get_bytes(start, length),
        }
    }
}

/// A file whose end has been read.
struct End {
    input: Input,
    metadata: ArrowReaderMetadata,
}

impl End {
    fn read(path: &Path) -> Result<End> {
        let input = Input::open(path)?;
        end::check(path, &input)?;
        let metadata = guarded(path, || ArrowReaderMetadata::load(&input, ArrowReaderOptions::new()))?;
        Ok(End { input, metadata })
    }

    fn groups(&self, wanted: impl Fn(usize, &RowGroupMetaData) -> bool) -> Vec<usize> {
        let groups = self.metadata.metadata().row_groups().iter().enumerate();
        groups.filter(|(index, group)| wanted(*index, group)).map(|(index, _)| index).collect()
    }

    /// In batches of at most so many rows.
    fn open(
        &self,
        path: &Path,
        names: &[&str],
        groups: Vec<usize>,
        within: &[Within],
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader> {
        let mut rows = batch_rows as u64;
        for group in &groups {
            let check = || pages::check_group(path, &self.input, self.metadata.metadata(), *group, names);
            rows = rows.min(caught(path, check)?);
        }
        guarded(path, || self.reader(names, groups, within, rows as usize))
    }

    fn reader(
        &self,
        names: &[&str],
        groups: Vec<usize>,
        within: &[Within],
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let schema = self.metadata.parquet_schema();
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.input.clone(), self.metadata.clone())
                .with_projection(ProjectionMask::columns(schema, names.iter().copied()))
                .with_row_groups(groups)
                .with_batch_size(batch_rows);
        if !within.is_empty() {
            let tests = within.iter().map(|within| within.predicate(schema)).collect();
            builder = builder.with_row_filter(RowFilter::new(tests));
        }
        builder.build()
    }
}

/// Turns a panic of the Parquet library into an error: a damaged trace must not end the
/// program.
///
/// Of 30,000 files with a few flipped bytes, parquet 60 panicked on 30, in places that cannot be
/// checked beforehand (a page that names a dictionary the file lacks, a number longer than its
/// type). What the closure leaves half done is never used again. A program built with
/// `panic = "abort"` does not have this protection.
pub(crate) fn guarded<T, E: ToString>(path: &Path, work: impl FnOnce() -> Result<T, E>) -> Result<T> {
    caught(path, || work().map_err(Error::damaged(path)))
}

fn caught<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let senseless = |_| Err(Error::damaged(path)("its pages make no sense"));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(senseless)
}

/// Prints nothing of panics of the Parquet library, which become errors; the messages of other
/// panics stay.
pub fn quiet_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let file = info.location().map_or("", |location| location.file());
        if !["/parquet-", "/arrow-"].iter().any(|part| file.contains(part)) {
            default(info);
        }
    }));
}
