//! Writes a trace while it is being recorded.

use std::path::Path;

use crate::column::Row;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::files;
use crate::meta::{Meta, Rows};
use crate::rows::{
    AccessRow, AllocationRow, DeviceRow, FoldedRow, FrameRow, KernelEventRow, ModuleRow, PlacementRow,
    ProcessRow, SiteRow, SpanRow, ThreadRow, TimelineRow,
};
use crate::table::Table;
use crate::write::block_columns::BlockColumns;
use crate::write::block_file::BlockFile;
use crate::write::block_writer::BlockWriter;
use crate::write::budget::{Budget, ClosedPart};
use crate::write::growing_table::GrowingTable;
use crate::write::parts::PartFile;
use crate::write::settled::{SettledRows, Settling};
use crate::write::span_rows::{SpanCursor, SpanRows};
use crate::write::whole_table;

/// Rows of a page of `allocations`: their columns stay in the cache until they are encoded.
const PAGE_ROWS: usize = 16 * 1024;

/// Rows of processes and threads that are over.
#[derive(Default)]
struct Settled {
    processes: SettledRows<ProcessRow>,
    threads: SettledRows<ThreadRow>,
    modules: SettledRows<ModuleRow>,
}

/// A trace directory being written.
///
/// Rows of `allocations`, `timeline`, `kernel_events`, `accesses` and `placements` become readable
/// when their part is closed, the other tables when they are written. Every error leaves what was
/// closed before it readable.
pub struct TraceWriter {
    directory: Directory,
    blocks: BlockColumns,
    block_parts: BlockWriter,
    timeline: GrowingTable<TimelineRow>,
    kernel_events: GrowingTable<KernelEventRow>,
    accesses: GrowingTable<AccessRow>,
    placements: GrowingTable<PlacementRow>,
    settled: Settled,
    spans: SpanRows,
    /// The latest time of any block or point of the timeline so far.
    latest_ns: i64,
    budget: Budget,
    rotated: Rows,
}

impl TraceWriter {
    /// Starts a trace in `directory`, made if it is not there, and for its owner alone (0700).
    ///
    /// # Errors
    /// [`Error::Occupied`] if it already holds a trace, [`Error::Link`] and [`Error::OfAnother`] if
    /// another user may have put it there, [`Error::Io`] if it cannot be written.
    pub fn create(directory: impl AsRef<Path>) -> Result<TraceWriter> {
        let named = directory.as_ref();
        let held = Directory::create(named)?;
        let directory = held.path();
        if files::hold_trace(directory) {
            return Err(Error::Occupied(named.to_owned()));
        }
        Ok(TraceWriter {
            blocks: BlockColumns::default(),
            block_parts: BlockWriter::create(directory)?,
            timeline: GrowingTable::create(directory)?,
            kernel_events: GrowingTable::create(directory)?,
            accesses: GrowingTable::create(directory)?,
            placements: GrowingTable::create(directory)?,
            directory: held,
            settled: Settled::default(),
            spans: SpanRows::default(),
            latest_ns: 0,
            budget: Budget::unlimited(),
            rotated: Rows::default(),
        })
    }

    /// From now on the oldest parts are deleted, those of `allocations` first, when the trace would
    /// grow beyond this many bytes. Tables that are written whole stay, however large.
    pub fn limit(&mut self, bytes: u64) {
        self.budget = Budget::new(bytes);
        self.block_parts.limit_parts(self.budget.part_bytes());
    }

    /// Adds a block that was released, or that is live at the end.
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

    /// Adds a block that a plan places.
    pub fn placement(&mut self, row: PlacementRow) -> Result<()> {
        self.placements.push(row)
    }

    /// Closes the open parts: every row so far is on disk and readable.
    pub fn close_part(&mut self) -> Result<()> {
        self.write_blocks()?;
        let (budget, rotated) = (&mut self.budget, &mut self.rotated);
        self.block_parts.close(self.latest_ns, |part| budget.blocks(part, rotated))?;
        let closed = [
            self.timeline.close()?,
            self.kernel_events.close()?,
            self.accesses.close()?,
            self.placements.close()?,
        ];
        for (path, rows) in closed.into_iter().flatten() {
            let part = ClosedPart { path, rows, until_ns: self.latest_ns };
            self.budget.timeline(part, &mut self.rotated)?;
        }
        Ok(())
    }

    /// Adds the rows of a process that is over, which change no more. Some thousand become a part;
    /// calls of [`processes`](TraceWriter::processes) and [`modules`](TraceWriter::modules) write the
    /// others before those that they are passed.
    ///
    /// # Errors
    /// A part cannot be written.
    pub fn settle_process(
        &mut self,
        process: ProcessRow,
        modules: impl IntoIterator<Item = ModuleRow>,
    ) -> Result<()> {
        let TraceWriter { directory, settled, budget, .. } = self;
        settle(directory.path(), &mut settled.processes, [process], budget)?;
        settle(directory.path(), &mut settled.modules, modules, budget)
    }

    /// Adds rows of threads that are over, for [`threads`](TraceWriter::threads).
    ///
    /// # Errors
    /// A part cannot be written.
    pub fn settle_threads(&mut self, threads: impl IntoIterator<Item = ThreadRow>) -> Result<()> {
        let TraceWriter { directory, settled, budget, .. } = self;
        settle(directory.path(), &mut settled.threads, threads, budget)
    }

    /// Writes `processes`, replacing what an earlier call wrote.
    pub fn processes(&mut self, rows: &[ProcessRow]) -> Result<()> {
        let TraceWriter { directory, settled, budget, .. } = self;
        write_with(directory.path(), &settled.processes, rows, budget)
    }

    /// Writes `threads`, replacing what an earlier call wrote.
    pub fn threads(&mut self, rows: &[ThreadRow]) -> Result<()> {
        let TraceWriter { directory, settled, budget, .. } = self;
        write_with(directory.path(), &settled.threads, rows, budget)
    }

    /// Writes `modules`, replacing what an earlier call wrote.
    pub fn modules(&mut self, rows: &[ModuleRow]) -> Result<()> {
        let TraceWriter { directory, settled, budget, .. } = self;
        write_with(directory.path(), &settled.modules, rows, budget)
    }

    /// Adds a span that has ended, and leaves memory with it: of its row, only what was live at the end may
    /// change.
    pub fn span(&mut self, row: SpanRow) -> Result<()> {
        match self.spans.push(self.directory.path(), row)? {
            Some(part) => self.budget.table(&part),
            None => Ok(()),
        }
    }

    /// The program of a process has ended: how many bytes of spans that were [added](TraceWriter::span) were
    /// live then, by their numbers.
    pub fn live_at_end(&mut self, bytes: impl IntoIterator<Item = (u32, u64)>) {
        self.spans.live_at_end(bytes);
    }

    /// Writes `spans`, replacing what an earlier call wrote: those that were [added](TraceWriter::span) and
    /// are in no part yet, and these, which may change.
    pub fn spans(&mut self, rows: impl Iterator<Item = SpanRow>) -> Result<()> {
        let path = self.spans.write(self.directory.path(), rows)?;
        self.budget.table(&path)
    }

    /// The next of the spans that were [added](TraceWriter::span), in that order.
    pub fn next_span(&self, cursor: &mut SpanCursor) -> Result<Option<SpanRow>> {
        self.spans.next(cursor)
    }

    /// Writes what is live now to a file of its own, replacing what an earlier call wrote:
    /// `recover` reads it if the recorder dies. The file is removed when the trace is closed.
    pub fn live(&mut self, rows: &[AllocationRow]) -> Result<()> {
        let path = files::live_path(self.directory.path());
        let mut file = BlockFile::create(&path, Table::Allocations, rows.len())?;
        for rows in rows.chunks(PAGE_ROWS) {
            file.write(&BlockColumns::of(rows))?;
        }
        file.close()?;
        self.budget.table(&path)
    }

    /// Writes `sites`, replacing what an earlier call wrote.
    pub fn sites(&mut self, rows: &[SiteRow]) -> Result<()> {
        self.whole_table(rows)
    }

    /// Writes `frames`, replacing what an earlier call wrote.
    pub fn frames(&mut self, rows: &[FrameRow]) -> Result<()> {
        self.whole_table(rows)
    }

    /// Writes `folded`, replacing what an earlier call wrote.
    pub fn folded(&mut self, rows: &[FoldedRow]) -> Result<()> {
        self.whole_table(rows)
    }

    /// Writes `devices`, replacing what an earlier call wrote.
    pub fn devices(&mut self, rows: &[DeviceRow]) -> Result<()> {
        self.whole_table(rows)
    }

    /// Writes `meta.json` of a recording that still runs (`complete` is false in the file).
    pub fn meta(&mut self, meta: &Meta) -> Result<()> {
        Meta { complete: false, ..self.with_rotated(meta) }.store(self.directory.path())
    }

    /// Closes the last parts, writes the tables that never were written as empty ones, and
    /// then `meta.json` with `complete` set. The trace's directory.
    pub fn finish(mut self, meta: &Meta) -> Result<Directory> {
        self.close_part()?;
        whole_table::complete(self.directory.path(), &self.with_rotated(meta))?;
        Ok(self.directory)
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

    fn whole_table<R: Row>(&mut self, rows: &[R]) -> Result<()> {
        let path = whole_table::write_rows(self.directory.path(), rows)?;
        self.budget.table(&path)
    }
}

/// Adds settled rows of a table.
fn settle<R: Settling + Row>(
    directory: &Path,
    settled: &mut SettledRows<R>,
    rows: impl IntoIterator<Item = R>,
    budget: &mut Budget,
) -> Result<()> {
    match settled.extend(directory, rows)? {
        Some(part) => budget.table(&part),
        None => Ok(()),
    }
}

/// Writes a table of which some rows are settled.
fn write_with<R: Settling + Row>(
    directory: &Path,
    settled: &SettledRows<R>,
    rows: &[R],
    budget: &mut Budget,
) -> Result<()> {
    let path = whole_table::write_both(directory, settled.waiting(), rows)?;
    budget.table(&path)
}
