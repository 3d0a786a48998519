//! Writes a trace while it is being recorded.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::block_columns::BlockColumns;
use crate::encode::{self, Encoded};
use crate::error::{Error, Result};
use crate::meta::{self, Meta};
use crate::parts::{self, Parts, TableFile};
use crate::rows::{AllocationRow, FrameRow, ModuleRow, ProcessRow, SiteRow, SpanRow, ThreadRow, TimelineRow};
use crate::schema::Table;

/// Rows handed to the Parquet encoder at once: their columns stay in the cache.
const BATCH_ROWS: usize = 32 * 1024;

/// Rows of a whole table encoded at once: keeps the text of a batch far below Arrow's 2 GiB.
const WHOLE_TABLE_BATCH_ROWS: usize = 1024;

/// Rows after which a part is closed without being asked.
const PART_ROWS: usize = 4 * 1024 * 1024;

/// A trace directory being written.
///
/// Rows of `allocations` and `timeline` become readable when their part is closed, the other
/// tables when they are written. Every error leaves what was closed before it readable.
pub struct TraceWriter {
    directory: PathBuf,
    blocks: BlockColumns,
    block_parts: Parts,
    timeline: Vec<TimelineRow>,
    timeline_parts: Parts,
}

impl TraceWriter {
    /// Starts a trace in `directory`, made with mode 0700 if it is not there.
    ///
    /// # Errors
    /// [`Error::Occupied`] if it already holds a trace, [`Error::Io`] if it cannot be written.
    pub fn create(directory: impl AsRef<Path>) -> Result<TraceWriter> {
        let directory = directory.as_ref();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(Error::io("create", directory))?;
        if holds_trace(directory) {
            return Err(Error::Occupied(directory.to_owned()));
        }
        Ok(TraceWriter {
            blocks: BlockColumns::new(),
            block_parts: Parts::create(directory, Table::Allocations)?,
            timeline: Vec::new(),
            timeline_parts: Parts::create(directory, Table::Timeline)?,
            directory: directory.to_owned(),
        })
    }

    /// Where the trace is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Adds a block whose life is known to its end.
    pub fn allocation(&mut self, row: AllocationRow) -> Result<()> {
        self.blocks.push(&row);
        if self.blocks.len() == BATCH_ROWS { self.write_blocks() } else { Ok(()) }
    }

    /// Adds a point of the timeline.
    pub fn timeline(&mut self, row: TimelineRow) -> Result<()> {
        self.timeline.push(row);
        if self.timeline.len() == WHOLE_TABLE_BATCH_ROWS { self.write_timeline() } else { Ok(()) }
    }

    /// Closes the open parts: everything handed over so far is on disk and readable.
    pub fn close_part(&mut self) -> Result<()> {
        self.write_blocks()?;
        self.block_parts.close()?;
        self.write_timeline()?;
        self.timeline_parts.close()
    }

    /// Writes `processes`, replacing what an earlier call wrote.
    pub fn processes(&mut self, rows: &[ProcessRow]) -> Result<()> {
        whole_table(&self.directory, Table::Processes, rows, encode::processes)
    }

    /// Writes `threads`, replacing what an earlier call wrote.
    pub fn threads(&mut self, rows: &[ThreadRow]) -> Result<()> {
        whole_table(&self.directory, Table::Threads, rows, encode::threads)
    }

    /// Writes `modules`, replacing what an earlier call wrote.
    pub fn modules(&mut self, rows: &[ModuleRow]) -> Result<()> {
        whole_table(&self.directory, Table::Modules, rows, encode::modules)
    }

    /// Writes `spans`, replacing what an earlier call wrote.
    pub fn spans(&mut self, rows: &[SpanRow]) -> Result<()> {
        whole_table(&self.directory, Table::Spans, rows, encode::spans)
    }

    /// Writes what is live now beside the trace, replacing what an earlier call wrote: all that is left of it should
    /// the recorder die ([`recover`](crate::recover)). Gone once the trace is closed.
    pub fn live(&mut self, rows: &[AllocationRow]) -> Result<()> {
        let path = parts::live_path(&self.directory);
        let mut file = TableFile::create(&path, Table::Allocations)?;
        file.write(&BlockColumns::batch(rows).map_err(Error::write(&path))?)?;
        file.close()
    }

    /// Writes `sites`, replacing what an earlier call wrote.
    pub fn sites(&mut self, rows: &[SiteRow]) -> Result<()> {
        whole_table(&self.directory, Table::Sites, rows, encode::sites)
    }

    /// Writes `frames`, replacing what an earlier call wrote.
    pub fn frames(&mut self, rows: &[FrameRow]) -> Result<()> {
        whole_table(&self.directory, Table::Frames, rows, encode::frames)
    }

    /// Writes `meta.json` of a recording that still runs (`complete` is false in the file).
    pub fn meta(&mut self, meta: &Meta) -> Result<()> {
        Meta { complete: false, ..meta.clone() }.store(&self.directory)
    }

    /// Closes the last parts, writes the tables that never were written as empty ones, and
    /// then `meta.json` with `complete` set.
    pub fn finish(mut self, meta: &Meta) -> Result<()> {
        self.close_part()?;
        complete(&self.directory, meta)
    }

    fn write_blocks(&mut self) -> Result<()> {
        if self.blocks.len() == 0 {
            return Ok(());
        }
        let batch = self.blocks.take().map_err(Error::write(&self.directory))?;
        self.block_parts.write(&batch)?;
        if self.block_parts.rows() >= PART_ROWS { self.block_parts.close() } else { Ok(()) }
    }

    fn write_timeline(&mut self) -> Result<()> {
        if self.timeline.is_empty() {
            return Ok(());
        }
        let batch = encode::timeline(&self.timeline).map_err(Error::write(&self.directory))?;
        self.timeline.clear();
        self.timeline_parts.write(&batch)
    }
}

fn whole_table<R>(directory: &Path, table: Table, rows: &[R], encode: fn(&[R]) -> Encoded) -> Result<()> {
    let path = parts::whole_path(directory, table);
    let mut file = TableFile::create(&path, table)?;
    for rows in rows.chunks(WHOLE_TABLE_BATCH_ROWS) {
        file.write(&encode(rows).map_err(Error::write(&path))?)?;
    }
    file.close()
}

/// Replaces the stacks of a closed trace: its frames have been named.
///
/// # Errors
/// [`Error::Io`] if the directory cannot be written; then the old ones are still there.
pub fn replace_stacks(directory: &Path, sites: &[SiteRow], frames: &[FrameRow]) -> Result<()> {
    whole_table(directory, Table::Frames, frames, encode::frames)?;
    whole_table(directory, Table::Sites, sites, encode::sites)
}

/// Adds the tables that never were written as empty ones, and says that nothing is missing now.
pub(crate) fn complete(directory: &Path, meta: &Meta) -> Result<()> {
    for table in Table::ALL {
        if parts::files(directory, table)?.is_empty() {
            match table.in_parts() {
                true => Parts::resume(directory, table)?.finish()?,
                false => TableFile::create(&parts::whole_path(directory, table), table)?.close()?,
            }
        }
    }
    Meta { complete: true, ..meta.clone() }.store(directory)?;
    parts::remove_live(directory)
}

fn holds_trace(directory: &Path) -> bool {
    directory.join(meta::FILE_NAME).exists()
        || Table::ALL.iter().any(|&table| {
            parts::whole_path(directory, table).exists() || directory.join(table.name()).exists()
        })
}
