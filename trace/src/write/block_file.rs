//! A Parquet file of `allocations`.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::atomic::Replacement;
use crate::column::Label;
use crate::error::{Error, Result};
use crate::rows::{Kind, Role};
use crate::table::Table;
use crate::write::block_columns::{BlockColumns, Context};
use crate::write::pages::{Chunk, Layout, Page, Squeezer, Values, runs};
use crate::write::parts::PartFile;

/// Rows from which on a row group is written: bounds what a reader must hold.
const ROW_GROUP_ROWS: usize = 512 * 1024;

/// The library writes column chunks in pieces of 8 KiB.
const BUFFER: usize = 1 << 16;

/// A file of blocks that takes its name when closed.
pub(crate) struct BlockFile {
    path: PathBuf,
    file: SerializedFileWriter<BufWriter<Replacement>>,
    chunks: Vec<Chunk>,
    squeezer: Squeezer,
    rows: usize,
    buffers: Buffers,
}

impl PartFile for BlockFile {
    type Batch = BlockColumns;

    fn create(path: &Path, _: Table, _: usize) -> Result<Self> {
        let file = Replacement::create(path)?;
        Self::begin(path, file).map_err(Error::write(path))
    }

    /// Adds a page to every column.
    fn write(&mut self, columns: &BlockColumns) -> Result<()> {
        self.pages(columns).map_err(Error::write(&self.path))
    }

    fn close(mut self) -> Result<()> {
        let path = std::mem::take(&mut self.path);
        let file = self.row_group().and_then(|()| self.file.into_inner()).map_err(Error::write(&path))?;
        file.into_inner().map_err(|error| Error::io("write", &path)(error.into_error()))?.commit()
    }
}

impl BlockFile {
    /// Its size if it were closed now, without the footer.
    pub(crate) fn bytes(&self) -> u64 {
        let pending: usize = self.chunks.iter().map(Chunk::bytes).sum();
        (self.file.bytes_written() + pending) as u64
    }

    fn begin(path: &Path, file: Replacement) -> ParquetResult<BlockFile> {
        let schema = Table::Allocations.schema();
        let mut properties = WriterProperties::builder().build();
        // `kind` and `role` come back as the dictionaries they are.
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let columns = ArrowSchemaConverter::new().convert(&schema)?;
        let file = SerializedFileWriter::new(
            BufWriter::with_capacity(BUFFER, file),
            columns.root_schema_ptr(),
            Arc::new(properties),
        )?;
        let chunks = columns.columns().iter().zip(&COLUMNS).map(|(column, ours)| {
            debug_assert_eq!(column.name(), ours.name);
            Chunk::new(column.clone(), ours.layout)
        });
        Ok(BlockFile {
            path: path.to_owned(),
            file,
            chunks: chunks.collect(),
            squeezer: Squeezer::new()?,
            rows: 0,
            buffers: Buffers::default(),
        })
    }

    fn pages(&mut self, columns: &BlockColumns) -> ParquetResult<()> {
        let Buffers { valid, runs } = &mut self.buffers;
        for (chunk, column) in self.chunks.iter_mut().zip(&COLUMNS) {
            let values = match column.source {
                Source::Context(of) => {
                    let with = columns.runs.iter().map(|(context, rows)| (of(context), *rows));
                    runs::join(with.clone().map(|(value, rows)| (value.is_some(), rows)), valid);
                    runs::join(with.filter_map(|(value, rows)| Some((value?, rows))), runs);
                    Values::InRuns(runs)
                }
                Source::Rows(of, has) => {
                    runs::join(columns.runs.iter().map(|(context, rows)| (has(context), *rows)), valid);
                    Values::Each(of(columns))
                }
            };
            chunk.page(columns.len(), Page { valid, values }, &mut self.squeezer)?;
        }
        self.rows += columns.len();
        if self.rows >= ROW_GROUP_ROWS { self.row_group() } else { Ok(()) }
    }

    fn row_group(&mut self) -> ParquetResult<()> {
        if std::mem::take(&mut self.rows) == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for chunk in &mut self.chunks {
            let (bytes, close) = chunk.take(&mut self.squeezer)?;
            group.append_column(&bytes, close)?;
        }
        group.close().map(drop)
    }
}

/// A column, and where its values come from.
struct Column {
    name: &'static str,
    layout: Layout,
    source: Source,
}

enum Source {
    /// The same for many rows.
    Context(fn(&Context) -> Option<u64>),
    /// One in each row that has one.
    Rows(fn(&BlockColumns) -> &[u64], fn(&Context) -> bool),
}

impl Column {
    const fn context(name: &'static str, layout: Layout, of: fn(&Context) -> Option<u64>) -> Column {
        Column { name, layout, source: Source::Context(of) }
    }

    const fn rows(
        name: &'static str,
        layout: Layout,
        of: fn(&BlockColumns) -> &[u64],
        has: fn(&Context) -> bool,
    ) -> Column {
        Column { name, layout, source: Source::Rows(of, has) }
    }
}

/// In the order of the declaration. Layouts were chosen by measurement:
/// docs/design/0005-allocations-on-disk.md.
const COLUMNS: [Column; 12] = [
    Column::context("process", Layout::Few, |context| Some(context.process.into())),
    Column::context("thread", Layout::Few, |context| Some(context.thread.into())),
    Column::context("kind", Layout::Labels(Kind::TEXTS), |context| Some(context.kind as u64)),
    Column::rows("address", Layout::Near, |columns| &columns.address, |context| context.has_address),
    Column::rows("bytes", Layout::Few, |columns| &columns.bytes, |_| true),
    Column::rows("alloc_ns", Layout::Split, |columns| &columns.alloc_ns, |_| true),
    Column::rows("free_ns", Layout::Near, |columns| &columns.free_ns, |context| context.has_free),
    Column::rows("site", Layout::Few, |columns| &columns.site, |context| context.has_site),
    Column::rows("ordinal", Layout::Near, |columns| &columns.ordinal, |_| true),
    Column::context("span", Layout::Few, |context| context.span.map(u64::from)),
    Column::context("role", Layout::Labels(Role::TEXTS), |context| Some(context.role as u64)),
    Column::context("device", Layout::Few, |context| context.device.map(u64::from)),
];

/// Buffers that are reused for each page.
#[derive(Default)]
struct Buffers {
    valid: Vec<(bool, u32)>,
    runs: Vec<(u64, u32)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Record;
    use crate::rows::AllocationRow;

    #[test]
    fn every_declared_column_is_written() {
        assert_eq!(COLUMNS.map(|column| column.name).to_vec(), AllocationRow::names());
    }
}
