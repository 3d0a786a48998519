//! Writes the rows of the trace, until writing fails; blocks without rows of their own are summed
//! up instead.

use memtrace_trace::rows::{
    AccessRow, AllocationRow, FoldedRow, KernelEventRow, PlacementRow, SpanRow, TimelineRow,
};
use memtrace_trace::{SpanCursor, TraceWriter};
use rustc_hash::FxHashMap;

use super::block_sums::{BlockSums, Keep};
use crate::record::sites::Sites;
use crate::record::state::blocks::Block;

/// See the module.
pub struct RowWriter {
    out: TraceWriter,
    /// The first error; after it nothing more is written.
    failure: Option<memtrace_trace::Error>,
    sums: BlockSums,
}

impl RowWriter {
    /// Nothing written yet.
    pub fn new(out: TraceWriter, keep: Keep) -> RowWriter {
        RowWriter { out, failure: None, sums: BlockSums::new(keep) }
    }

    /// Does something with the writer, unless writing has failed before.
    pub fn write(&mut self, work: impl FnOnce(&mut TraceWriter) -> memtrace_trace::Result<()>) {
        if self.failure.is_none() {
            self.failure = work(&mut self.out).err();
        }
    }

    /// A row of `timeline`.
    pub fn timeline(&mut self, row: TimelineRow) {
        self.write(|out| out.timeline(row));
    }

    /// A row of `kernel_events`.
    pub fn kernel_event(&mut self, row: KernelEventRow) {
        self.write(|out| out.kernel_event(row));
    }

    /// A row of `accesses`.
    pub fn access(&mut self, row: AccessRow) {
        self.write(|out| out.access(row));
    }

    /// A row of `placements`.
    pub fn placement(&mut self, row: PlacementRow) {
        self.write(|out| out.placement(row));
    }

    /// A row of `spans` that changes no more, but for what was live at the end.
    pub fn span(&mut self, row: SpanRow) {
        self.write(|out| out.span(row));
    }

    /// What was live at the end of such spans, by number.
    pub fn live_at_end(&mut self, bytes: FxHashMap<u32, u64>) {
        self.write(|out| {
            out.live_at_end(bytes);
            Ok(())
        });
    }

    /// The next of these spans for one who follows them; none if it cannot be read.
    pub fn next_span(&self, cursor: &mut SpanCursor) -> Option<SpanRow> {
        self.out.next_span(cursor).ok().flatten()
    }

    /// A row of `allocations`.
    #[inline(always)]
    pub fn allocation(&mut self, row: AllocationRow) {
        self.write(|out| out.allocation(row));
    }

    /// True for a block that gets no row, but is to be [added](RowWriter::add) to the sums.
    #[inline]
    pub fn is_summed(&self, block: &Block) -> bool {
        self.sums.takes(block)
    }

    /// Adds a block that has ended to the sums, after this long if it was released.
    pub fn add(&mut self, block: &Block, lifetime_ns: Option<i64>) {
        self.sums.add(block, lifetime_ns);
    }

    /// True if the row of a block has its address.
    #[inline(always)]
    pub fn keeps_address(&self, block: &Block, is_released: bool) -> bool {
        self.sums.keeps_address(block, is_released)
    }

    /// How many blocks got no row.
    pub fn summed_blocks(&self) -> u64 {
        self.sums.blocks()
    }

    /// The rows of `folded`.
    pub fn summed_rows(&self, sites: &Sites) -> Vec<FoldedRow> {
        self.sums.rows(sites)
    }

    /// Why writing has failed.
    pub fn take_failure(&mut self) -> Option<memtrace_trace::Error> {
        self.failure.take()
    }

    /// The writer of the trace, to be closed.
    pub fn into_writer(self) -> TraceWriter {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_after_the_first_failure() {
        let directory = tempfile::tempdir().unwrap();
        let out = TraceWriter::create(directory.path()).unwrap();
        let mut rows = RowWriter::new(out, Keep::default());
        let mut calls = 0;
        let failure = || memtrace_trace::Error::NotATrace(directory.path().to_path_buf());
        for _ in 0..2 {
            rows.write(|_| {
                calls += 1;
                Err(failure())
            });
        }
        assert_eq!(calls, 1);
        assert!(rows.take_failure().is_some());
    }
}
