//! Writes a trace while it is being recorded.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::block_columns::BlockColumns;
use crate::block_file::BlockFile;
use crate::block_writer::BlockWriter;
use crate::budget::{Budget, ClosedPart};
use crate::encode::{self, Encoded};
use crate::error::{Error, Result};
use crate::meta::{self, Meta, Rows};
use crate::parts::{self, PartFile, Parts, TableFile};
use crate::rows::{
    AccessRow, AllocationRow, DeviceRow, FoldedRow, FrameRow, KernelEventRow, ModuleRow, ProcessRow, SiteRow,
    SpanRow, ThreadRow, TimelineRow,
};
use crate::schema::Table;

/// Rows of a page of `allocations`: their columns stay in the cache until they are encoded.
const PAGE_ROWS: usize = 16 * 1024;

/// Rows of a whole table encoded at once: keeps the text of a batch far below Arrow's 2 GiB.
const WHOLE_TABLE_BATCH_ROWS: usize = 1024;

/// A trace directory being written.
///
/// Rows of `allocations`, `timeline`, `kernel_events` and `accesses` become readable when their part is closed, the other
/// tables when they are written. Every error leaves what was closed before it readable.
pub struct TraceWriter {
    directory: PathBuf,
    blocks: BlockColumns,
    block_parts: BlockWriter,
    timeline: Growing<TimelineRow>,
    kernel_events: Growing<KernelEventRow>,
    accesses: Growing<AccessRow>,
    /// The latest time of any block or point of the timeline so far.
    latest_ns: i64,
    budget: Budget,
    rotated: Rows,
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
            blocks: BlockColumns::default(),
            block_parts: BlockWriter::create(directory)?,
            timeline: Growing::create(directory, Table::Timeline, encode::timeline)?,
            kernel_events: Growing::create(directory, Table::KernelEvents, encode::kernel_events)?,
            accesses: Growing::create(directory, Table::Accesses, encode::accesses)?,
            directory: directory.to_owned(),
            latest_ns: 0,
            budget: Budget::unlimited(),
            rotated: Rows::default(),
        })
    }

    /// From now on the oldest parts are deleted, those of `allocations` first, when the trace would grow beyond so many
    /// bytes. Tables that are written whole stay, however large.
    pub fn limit(&mut self, bytes: u64) {
        self.budget = Budget::new(bytes);
        self.block_parts.limit_parts(self.budget.part_bytes());
    }

    /// Where the trace is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Adds a block whose life is known to its end.
    #[inline(always)]
    pub fn allocation(&mut self, row: AllocationRow) -> Result<()> {
        self.latest_ns = self.latest_ns.max(row.free_ns.unwrap_or(row.alloc_ns));
        self.blocks.push(&row);
        if self.blocks.len() >= PAGE_ROWS { self.write_blocks() } else { Ok(()) }
    }

    /// Adds a point of the timeline.
    pub fn timeline(&mut self, row: TimelineRow) -> Result<()> {
        self.latest_ns = self.latest_ns.max(row.time_ns);
        self.timeline.push(row)
    }

    /// Adds something the kernel saw.
    pub fn kernel_event(&mut self, row: KernelEventRow) -> Result<()> {
        self.kernel_events.push(row)
    }

    /// Adds a sampled memory access.
    pub fn access(&mut self, row: AccessRow) -> Result<()> {
        self.accesses.push(row)
    }

    /// Closes the open parts: everything handed over so far is on disk and readable.
    pub fn close_part(&mut self) -> Result<()> {
        self.write_blocks()?;
        let (budget, rotated) = (&mut self.budget, &mut self.rotated);
        self.block_parts.close(self.latest_ns, |part| budget.blocks(part, rotated))?;
        let closed = [self.timeline.close()?, self.kernel_events.close()?, self.accesses.close()?];
        for (path, rows) in closed.into_iter().flatten() {
            let part = ClosedPart { path, rows, until_ns: self.latest_ns };
            self.budget.timeline(part, &mut self.rotated)?;
        }
        Ok(())
    }

    /// Writes `processes`, replacing what an earlier call wrote.
    pub fn processes(&mut self, rows: &[ProcessRow]) -> Result<()> {
        self.whole_table(Table::Processes, rows, encode::processes)
    }

    /// Writes `threads`, replacing what an earlier call wrote.
    pub fn threads(&mut self, rows: &[ThreadRow]) -> Result<()> {
        self.whole_table(Table::Threads, rows, encode::threads)
    }

    /// Writes `modules`, replacing what an earlier call wrote.
    pub fn modules(&mut self, rows: &[ModuleRow]) -> Result<()> {
        self.whole_table(Table::Modules, rows, encode::modules)
    }

    /// Writes `spans`, replacing what an earlier call wrote.
    /// The rows are asked for some thousand at a time.
    pub fn spans(&mut self, mut rows: impl ExactSizeIterator<Item = SpanRow>) -> Result<()> {
        let count = rows.len();
        let batches = std::iter::from_fn(|| {
            let batch: Vec<SpanRow> = rows.by_ref().take(WHOLE_TABLE_BATCH_ROWS).collect();
            (!batch.is_empty()).then(|| encode::spans(&batch))
        });
        let path = write_table(&self.directory, Table::Spans, count, batches)?;
        self.budget.table(&path)
    }

    /// Writes what is live now beside the trace, replacing what an earlier call wrote: all that is left of it should
    /// the recorder die ([`recover`](crate::recover)). Gone once the trace is closed.
    pub fn live(&mut self, rows: &[AllocationRow]) -> Result<()> {
        let path = parts::live_path(&self.directory);
        let mut file = BlockFile::create(&path, Table::Allocations, rows.len())?;
        for rows in rows.chunks(PAGE_ROWS) {
            file.write(&BlockColumns::of(rows))?;
        }
        file.close()?;
        self.budget.table(&path)
    }

    /// Writes `sites`, replacing what an earlier call wrote.
    pub fn sites(&mut self, rows: &[SiteRow]) -> Result<()> {
        self.whole_table(Table::Sites, rows, encode::sites)
    }

    /// Writes `frames`, replacing what an earlier call wrote.
    pub fn frames(&mut self, rows: &[FrameRow]) -> Result<()> {
        self.whole_table(Table::Frames, rows, encode::frames)
    }

    /// Writes `folded`, replacing what an earlier call wrote.
    pub fn folded(&mut self, rows: &[FoldedRow]) -> Result<()> {
        self.whole_table(Table::Folded, rows, encode::folded)
    }

    /// Writes `devices`, replacing what an earlier call wrote.
    pub fn devices(&mut self, rows: &[DeviceRow]) -> Result<()> {
        self.whole_table(Table::Devices, rows, encode::devices)
    }

    /// Writes `meta.json` of a recording that still runs (`complete` is false in the file).
    pub fn meta(&mut self, meta: &Meta) -> Result<()> {
        Meta { complete: false, ..self.with_rotated(meta) }.store(&self.directory)
    }

    /// Closes the last parts, writes the tables that never were written as empty ones, and
    /// then `meta.json` with `complete` set.
    pub fn finish(mut self, meta: &Meta) -> Result<()> {
        self.close_part()?;
        complete(&self.directory, &self.with_rotated(meta))
    }

    fn with_rotated(&self, meta: &Meta) -> Meta {
        let Rows { rotated, complete_from_ns, rotated_timeline, .. } = self.rotated;
        Meta { rows: Rows { rotated, complete_from_ns, rotated_timeline, ..meta.rows }, ..meta.clone() }
    }

    #[cold]
    fn write_blocks(&mut self) -> Result<()> {
        if self.blocks.len() == 0 {
            return Ok(());
        }
        let (budget, rotated) = (&mut self.budget, &mut self.rotated);
        self.block_parts.page(&mut self.blocks, self.latest_ns, |part| budget.blocks(part, rotated))
    }

    fn whole_table<R>(&mut self, table: Table, rows: &[R], encode: fn(&[R]) -> Encoded) -> Result<()> {
        let path = whole_table(&self.directory, table, rows, encode)?;
        self.budget.table(&path)
    }
}

/// A table in parts that the Parquet library encodes, some rows at a time.
struct Growing<R> {
    rows: Vec<R>,
    parts: Parts<TableFile>,
    /// Rows of the open part.
    count: u64,
    encode: fn(&[R]) -> Encoded,
    directory: PathBuf,
}

impl<R> Growing<R> {
    fn create(directory: &Path, table: Table, encode: fn(&[R]) -> Encoded) -> Result<Growing<R>> {
        let parts = Parts::create(directory, table)?;
        Ok(Growing { rows: Vec::new(), parts, count: 0, encode, directory: directory.to_owned() })
    }

    fn push(&mut self, row: R) -> Result<()> {
        self.count += 1;
        self.rows.push(row);
        if self.rows.len() == WHOLE_TABLE_BATCH_ROWS { self.write(usize::MAX) } else { Ok(()) }
    }

    /// Writes the rows that wait; the part is to have so many if it begins with them.
    fn write(&mut self, rows: usize) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let batch = (self.encode)(&self.rows).map_err(Error::write(&self.directory))?;
        self.rows.clear();
        self.parts.write(&batch, rows)
    }

    /// Closes the open part: where it is, and how many rows it has.
    fn close(&mut self) -> Result<Option<(PathBuf, u64)>> {
        self.write(self.rows.len())?;
        let rows = std::mem::take(&mut self.count);
        Ok(self.parts.close()?.map(|path| (path, rows)))
    }
}

fn whole_table<R>(
    directory: &Path,
    table: Table,
    rows: &[R],
    encode: fn(&[R]) -> Encoded,
) -> Result<PathBuf> {
    write_table(directory, table, rows.len(), rows.chunks(WHOLE_TABLE_BATCH_ROWS).map(encode))
}

/// Writes a table of so many rows, which come in batches.
fn write_table(
    directory: &Path,
    table: Table,
    rows: usize,
    batches: impl Iterator<Item = Encoded>,
) -> Result<PathBuf> {
    let path = parts::whole_path(directory, table);
    let mut file = TableFile::create(&path, table, rows)?;
    for batch in batches {
        file.write(&batch.map_err(Error::write(&path))?)?;
    }
    file.close()?;
    Ok(path)
}

/// Replaces the stacks of a closed trace: its frames have been named.
///
/// # Errors
/// [`Error::Io`] if the directory cannot be written; then the old ones are still there.
pub fn replace_stacks(directory: &Path, sites: &[SiteRow], frames: &[FrameRow]) -> Result<()> {
    whole_table(directory, Table::Frames, frames, encode::frames)?;
    whole_table(directory, Table::Sites, sites, encode::sites)?;
    Ok(())
}

/// Adds the tables that never were written as empty ones, and says that nothing is missing now.
pub(crate) fn complete(directory: &Path, meta: &Meta) -> Result<()> {
    for table in Table::ALL {
        if parts::files(directory, table)?.is_empty() {
            match table.in_parts() {
                true if table == Table::Allocations => {
                    Parts::<BlockFile>::resume(directory, table)?.finish()?
                }
                true => Parts::<TableFile>::resume(directory, table)?.finish()?,
                false => TableFile::create(&parts::whole_path(directory, table), table, 0)?.close()?,
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
