//! What was requested and never touched, of each large block.

use memtrace_trace::rows::{KernelEventRow, Kind};
use memtrace_wire::arch::address::MAPPED_FROM;
use memtrace_wire::arch::page::bytes as page_bytes;

use super::Fold;
use crate::record::state::blocks::Block;

/// Less than this is not worth a row.
const WORTH_A_ROW: u64 = 64 << 10;

impl Fold {
    /// A large heap block was allocated.
    #[cold]
    pub(in crate::record::fold) fn large_block_begins(&mut self, process: u32, address: u64, block: &Block) {
        let process = &mut self.processes[process];
        // What realloc(3) has moved was touched where it was before; what a child has of its
        // parent's heap is touched without faults of its own.
        let unknown = process.row.origin == "fork" && !is_mapped_by_glibc(address, block);
        if block.kind != Kind::Realloc && !unknown {
            process.large.insert(address, block.bytes, process.pages.count(address, block.bytes));
        }
    }

    /// A large heap block is being released: it was taken out, and counts until what the kernel has
    /// seen before is folded.
    #[cold]
    pub(in crate::record::fold) fn large_block_ends(
        &mut self,
        process: u32,
        address: u64,
        block: &Block,
        stamp: u64,
    ) {
        self.processes[process].heap.begin_in_flight(block.bytes);
        self.fold_kernel_before(stamp);
        self.note_footprint(process);
        self.processes[process].heap.end_in_flight(block.bytes);
        self.note_untouched(process, address, block, Some(stamp));
    }

    /// Takes in what the kernel saw up to this stamp, runs of faults that go on included.
    fn fold_kernel_before(&mut self, stamp: u64) {
        self.read_kernel();
        self.kernel_until(stamp);
        self.fold_unfinished(stamp);
    }

    /// A large block or mapping has ended, or is still there in the end: writes how much of it no
    /// fault has touched.
    #[cold]
    pub(in crate::record::fold) fn note_untouched(
        &mut self,
        process: u32,
        address: u64,
        block: &Block,
        free: Option<u64>,
    ) {
        if free.is_none() || !block.kind.is_heap() {
            self.fold_kernel_before(free.unwrap_or_else(|| self.clock.stamp()));
        }
        if !self.sees_faults() {
            return;
        }
        let Some(image) = self.kernel_image(process).filter(|image| !image.uninstrumented) else { return };
        let pid = image.pid;
        let of = &mut self.processes[process];
        let untouched = if block.kind.is_heap() {
            let untouched = of.large.remove(address);
            if is_mapped_by_glibc(address, block) {
                // It is unmapped now, and what comes here next is touched anew.
                of.pages.remove(address, block.bytes);
            }
            untouched
        } else {
            // A mapping of a file need not be touched to be there.
            let has_row = matches!(block.kind, Kind::MapAnonymous | Kind::MapCommitted | Kind::MapBreak);
            has_row.then(|| block.bytes - of.pages.count(address, block.bytes).min(block.bytes))
        };
        let Some(untouched) = untouched.filter(|bytes| *bytes >= WORTH_A_ROW) else { return };
        self.sites.accounts_mut().untouched(block.site, block.bytes, untouched);
        let row = KernelEventRow {
            process: Some(process),
            pid,
            tid: self.threads.get(block.thread).map_or(0, |thread| thread.tid),
            time_ns: self.clock.ns(block.alloc),
            event: "untouched".into(),
            address: Some(address),
            bytes: Some(untouched),
            value: Some(block.bytes as i64),
            took_ns: free.map(|free| self.clock.ns(free) - self.clock.ns(block.alloc)),
            pages: None,
            site: block.site.map(|site| self.sites.id(site)),
        };
        self.rows.kernel_event(row);
    }
}

/// A block that malloc(3) has mapped for itself lies two words behind the beginning of a page
/// (glibc malloc/malloc.c). Any block of a heap may do so too; that of the first thread lies below
/// where the kernel maps.
fn is_mapped_by_glibc(address: u64, block: &Block) -> bool {
    block.kind.is_heap() && address % page_bytes() == 16 && address >= MAPPED_FROM
}
