//! Reads one Parquet file batch by batch, in bounded memory.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;

use crate::decode::Columns;
use crate::error::{Error, Result};
use crate::schema::Table;

/// Rows decoded at once.
const BATCH_ROWS: usize = 8 * 1024;

/// Hands the batches of the row groups that `wanted` says yes to over to `each`, in order.
pub(crate) fn read(
    path: &Path,
    table: Table,
    wanted: impl Fn(&RowGroupMetaData) -> bool,
    each: impl FnMut(&Columns) -> Result<()>,
) -> Result<()> {
    let schema = table.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    read_columns(path, table, &names, |_, group| wanted(group), each)
}

/// The same with some of the columns only; `wanted` is told the row group's number too.
pub(crate) fn read_columns(
    path: &Path,
    table: Table,
    names: &[&str],
    wanted: impl Fn(usize, &RowGroupMetaData) -> bool,
    mut each: impl FnMut(&Columns) -> Result<()>,
) -> Result<()> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    let mut batches = guarded(path, || open(file, names, wanted, BATCH_ROWS))?;
    while let Some(batch) = guarded(path, || batches.next().transpose())? {
        each(&Columns { path, table, batch: &batch })?;
    }
    Ok(())
}

/// What the end of a file says about its row groups, without reading them.
pub(crate) fn groups(path: &Path) -> Result<Vec<RowGroupMetaData>> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    guarded(path, || {
        Ok::<_, ParquetError>(
            ParquetRecordBatchReaderBuilder::try_new(file)?.metadata().row_groups().to_vec(),
        )
    })
}

/// Opens some columns of the row groups that `wanted` says yes to; whoever reads it must be [`guarded`].
pub(crate) fn open(
    file: File,
    names: &[&str],
    wanted: impl Fn(usize, &RowGroupMetaData) -> bool,
    batch_rows: usize,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
    let groups = builder.metadata().row_groups().iter().enumerate();
    let groups = groups.filter(|(index, group)| wanted(*index, group)).map(|(index, _)| index).collect();
    let columns = ProjectionMask::columns(builder.parquet_schema(), names.iter().copied());
    builder.with_projection(columns).with_row_groups(groups).with_batch_size(batch_rows).build()
}

/// Turns a panic of the Parquet library into an error (DESIGN §6.10).
///
/// Of 30,000 files with a few flipped bytes, parquet 60 panicked on 30, in places that cannot be
/// checked beforehand (a page that names a dictionary the file lacks, a number longer than its
/// type). What the closure leaves half done is never used again. A program built with
/// `panic = "abort"` does not have this protection.
pub(crate) fn guarded<T, E: ToString>(path: &Path, work: impl FnOnce() -> Result<T, E>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(Error::damaged(path)),
        Err(_) => Err(Error::damaged(path)("its pages make no sense")),
    }
}

/// Says nothing of panics of the Parquet library, which become errors; the messages of other panics stay.
pub fn quiet_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let file = info.location().map_or("", |location| location.file());
        if !["/parquet-", "/arrow-"].iter().any(|part| file.contains(part)) {
            default(info);
        }
    }));
}
