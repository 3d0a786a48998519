//! Parquet files of a table, and parts that appear only when they are closed.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::atomic::Replacement;
use crate::column::Row;
use crate::error::{Error, Result};
use crate::files;
use crate::table::Table;
use crate::write::whole_table::BATCH_ROWS;

/// A Parquet file that takes its name when closed.
pub(crate) trait PartFile: Sized {
    /// Some rows.
    type Batch;

    /// Starts a file of `table` at `path` that will have `rows` rows, `usize::MAX` if that is not
    /// known.
    fn create(path: &Path, table: Table, rows: usize) -> Result<Self>;

    /// Adds rows.
    fn write(&mut self, batch: &Self::Batch) -> Result<()>;

    /// Gives the file its name.
    fn close(self) -> Result<()>;
}

/// A file of any table but `allocations`, encoded by the Parquet library.
pub(crate) struct TableFile {
    path: PathBuf,
    writer: ArrowWriter<Replacement>,
}

impl TableFile {
    /// The name that it takes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Up to this many rows a compressor for each column takes longer to make than it saves.
const FEW_ROWS: usize = 100;

impl PartFile for TableFile {
    type Batch = RecordBatch;

    fn create(path: &Path, table: Table, rows: usize) -> Result<Self> {
        let file = Replacement::create(path)?;
        let compression = match rows {
            ..=FEW_ROWS => Compression::UNCOMPRESSED,
            _ => Compression::ZSTD(ZstdLevel::default()),
        };
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_column_dictionary_enabled("time_ns".into(), false)
            .set_column_encoding("time_ns".into(), Encoding::DELTA_BINARY_PACKED)
            .build();
        let writer =
            ArrowWriter::try_new(file, table.schema(), Some(properties)).map_err(Error::write(path))?;
        Ok(TableFile { path: path.to_owned(), writer })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(Error::write::<ParquetError>(&self.path))
    }

    fn close(self) -> Result<()> {
        self.writer.into_inner().map_err(Error::write::<ParquetError>(&self.path))?.commit()
    }
}

/// The parts of one table: `NAME/part-00000.parquet`, `part-00001.parquet`, …
pub(crate) struct Parts<F> {
    table: Table,
    directory: PathBuf,
    next: u32,
    open: Option<F>,
}

/// Makes one part of rows that have left memory for good; `parts` are there from the first one on.
/// Where it is.
pub(crate) fn make<R: Row>(
    parts: &mut Option<Parts<TableFile>>,
    trace: &Path,
    rows: &[R],
) -> Result<Option<PathBuf>> {
    let parts = match parts {
        Some(parts) => parts,
        none => none.insert(Parts::resume(trace, R::TABLE)?),
    };
    for some in rows.chunks(BATCH_ROWS) {
        parts.write(&R::encode(some).map_err(Error::write(trace))?, rows.len())?;
    }
    parts.close()
}

impl<F: PartFile> Parts<F> {
    /// Makes the table's directory (0700) inside the trace directory.
    pub(crate) fn create(trace: &Path, table: Table) -> Result<Self> {
        let directory = trace.join(table.name());
        DirBuilder::new().mode(0o700).create(&directory).map_err(Error::io("create", &directory))?;
        Ok(Parts { table, directory, next: 0, open: None })
    }

    /// Goes on after the parts that are there.
    pub(crate) fn resume(trace: &Path, table: Table) -> Result<Self> {
        let directory = trace.join(table.name());
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(Error::io("create", &directory))?;
        let next = files::parts_of(trace, table)?
            .last()
            .and_then(|last| files::part_number(last))
            .map_or(0, |last| last + 1);
        Ok(Parts { table, directory, next, open: None })
    }

    /// Adds a batch to the open part. If there is none, one is started that will have `rows` rows
    /// (`usize::MAX`: not known). After an error that part is gone, earlier ones stay.
    pub(crate) fn write(&mut self, batch: &F::Batch, rows: usize) -> Result<()> {
        let mut file = match self.open.take() {
            Some(file) => file,
            None => F::create(&self.path(self.next), self.table, rows)?,
        };
        file.write(batch)?;
        self.open = Some(file);
        Ok(())
    }

    /// The part now open.
    pub(crate) fn open(&self) -> Option<&F> {
        self.open.as_ref()
    }

    /// Gives the open part its name, which it returns; nothing to do when there is none.
    pub(crate) fn close(&mut self) -> Result<Option<PathBuf>> {
        let Some(file) = self.open.take() else { return Ok(None) };
        file.close()?;
        self.next += 1;
        Ok(Some(self.path(self.next - 1)))
    }

    /// Closes the last part; a table without rows gets an empty one, so that it can be queried.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if self.open.is_none() && self.next == 0 {
            self.open = Some(F::create(&self.path(self.next), self.table, 0)?);
        }
        self.close().map(drop)
    }

    fn path(&self, number: u32) -> PathBuf {
        self.directory.join(files::part_name(number))
    }
}
