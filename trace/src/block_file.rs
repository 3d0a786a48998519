//! A Parquet file of `allocations`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::atomic::Replacement;
use crate::block_columns::{BlockColumns, Nullable};
use crate::error::{Error, Result};
use crate::labels::Label;
use crate::pages::{Chunk, Layout, Squeezer, Values};
use crate::parts::PartFile;
use crate::rows::{Kind, Role};
use crate::schema::Table;

/// Rows from which on a row group is written: bounds what a reader must hold.
const ROW_GROUP_ROWS: usize = 512 * 1024;

/// A file of blocks that takes its name when closed. Chosen by measurement: docs/design/0003-encoding.md.
pub(crate) struct BlockFile {
    path: PathBuf,
    file: SerializedFileWriter<Replacement>,
    chunks: Vec<Chunk>,
    squeezer: Squeezer,
    rows: usize,
}

impl PartFile for BlockFile {
    type Batch = BlockColumns;

    fn create(path: &Path, _: Table) -> Result<Self> {
        let file = Replacement::create(path)?;
        Self::begin(path, file).map_err(Error::write(path))
    }

    /// Adds a page to every column.
    fn write(&mut self, columns: &BlockColumns) -> Result<()> {
        self.pages(columns).map_err(Error::write(&self.path))
    }

    fn close(mut self) -> Result<()> {
        let path = std::mem::take(&mut self.path);
        self.row_group().and_then(|()| self.file.into_inner()).map_err(Error::write(&path))?.commit()
    }
}

impl BlockFile {
    fn begin(path: &Path, file: Replacement) -> ParquetResult<BlockFile> {
        let schema = Table::Allocations.schema();
        let mut properties = WriterProperties::builder().build();
        // `kind` and `role` come back as the dictionaries they are.
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let columns = ArrowSchemaConverter::new().convert(&schema)?;
        let file = SerializedFileWriter::new(file, columns.root_schema_ptr(), Arc::new(properties))?;
        let layouts = schema.fields().iter().map(|field| layout(field.name()));
        let chunks = columns.columns().iter().zip(layouts);
        Ok(BlockFile {
            path: path.to_owned(),
            file,
            chunks: chunks.map(|(column, layout)| Chunk::new(column.clone(), layout)).collect(),
            squeezer: Squeezer::new()?,
            rows: 0,
        })
    }

    fn pages(&mut self, columns: &BlockColumns) -> ParquetResult<()> {
        let pages = pages(columns);
        debug_assert_eq!(pages.len(), self.chunks.len());
        for (chunk, page) in self.chunks.iter_mut().zip(pages) {
            chunk.page(page, &mut self.squeezer)?;
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

fn layout(column: &str) -> Layout {
    match column {
        "kind" => Layout::Labels(Kind::TEXTS),
        "role" => Layout::Labels(Role::TEXTS),
        "free_ns" | "address" | "ordinal" => Layout::Near,
        "alloc_ns" => Layout::Split,
        _ => Layout::Few,
    }
}

/// In the order of the schema.
fn pages(columns: &BlockColumns) -> [Values<'_>; 11] {
    [
        plain(&columns.process),
        plain(&columns.thread),
        plain(&columns.kind),
        nullable(&columns.address),
        plain(&columns.bytes),
        plain(&columns.alloc_ns),
        nullable(&columns.free_ns),
        nullable(&columns.site),
        plain(&columns.ordinal),
        nullable(&columns.span),
        plain(&columns.role),
    ]
}

fn plain(values: &[u64]) -> Values<'_> {
    Values { values, valid: None }
}

fn nullable(column: &Nullable) -> Values<'_> {
    Values { values: &column.values, valid: Some(&column.valid) }
}
