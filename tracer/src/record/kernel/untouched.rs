//! What was asked for and never touched, of each large block.

use memtrace_trace::rows::{KernelEventRow, Kind};

use crate::record::blocks::Block;
use crate::record::fold::Fold;

const PAGE: u64 = 4096;
/// Less than this is not worth a row.
const WORTH_A_ROW: u64 = 64 << 10;

impl Fold {
    /// A large block has ended, or is still there in the end: tells how much of it faults have touched.
    #[cold]
    pub fn note_untouched(&mut self, process: u32, address: u64, block: &Block, free: Option<u64>) {
        let end = free.unwrap_or_else(|| self.clock.stamp());
        self.read_kernel();
        self.kernel_until(end);
        self.fold_unfinished(end);
        let Some(image) = self.kernel_image(process).filter(|image| !image.alone) else { return };
        // What realloc(3) has moved was touched where it was before; a mapping of a file need not be touched to be there.
        let moved = matches!(block.kind, Kind::Realloc | Kind::MapFile | Kind::MapShared | Kind::MapReserved);
        if moved || block.kind == Kind::MapArena {
            return;
        }
        let pid = image.pid;
        let pages = &mut self.processes[process as usize].pages;
        let touched = pages.count(address, block.bytes).min(block.bytes);
        if is_mapped_by_glibc(address, block) {
            // It is unmapped now, and whatever comes here next is touched anew.
            pages.remove(address, block.bytes);
        } else if block.kind.is_heap() {
            // Memory that other blocks have touched before.
            return;
        }
        if block.bytes - touched < WORTH_A_ROW {
            return;
        }
        let row = KernelEventRow {
            process: Some(process),
            pid,
            tid: self.threads[block.thread as usize].tid,
            time_ns: self.clock.ns(block.alloc),
            event: "untouched".into(),
            address: Some(address),
            bytes: Some(block.bytes - touched),
            value: Some(block.bytes as i64),
            took_ns: free.map(|free| self.clock.ns(free) - self.clock.ns(block.alloc)),
            pages: None,
        };
        self.write(|out| out.kernel_event(row));
    }
}

/// A block that malloc(3) has mapped for itself lies two words behind the beginning of a page (glibc malloc/malloc.c).
fn is_mapped_by_glibc(address: u64, block: &Block) -> bool {
    block.kind.is_heap() && address % PAGE == 16
}
