//! Rows of blocks, mappings and the timeline.

use memtrace_trace::rows::{AllocationRow, Role, TimelineRow};
use rustc_hash::FxHashSet;

use super::Fold;
use crate::record::mappings::Piece;
use crate::record::process::Block;
use crate::record::spans::BlockKey;

impl Fold {
    /// Writes what a process holds now.
    pub fn sample(&mut self, index: u32, stamp: u64, resident: Option<u64>) {
        let process = &self.processes[index as usize];
        let row = TimelineRow {
            process: index,
            time_ns: self.clock.ns(stamp),
            reason: "sample".into(),
            live_bytes: process.live(),
            heap_bytes: process.heap,
            mapped_bytes: process.mappings.mapped_bytes(),
            resident_bytes: resident,
        };
        self.write(|out| out.timeline(row));
    }

    pub(super) fn write_block(
        &mut self,
        process: u32,
        address: u64,
        block: &Block,
        free: Option<u64>,
        once: &FxHashSet<BlockKey>,
    ) {
        let role =
            self.role(block.span, block.output, free.is_some(), once.contains(&(address, block.alloc)));
        let row = AllocationRow {
            process,
            thread: block.thread,
            kind: block.kind,
            address,
            bytes: block.bytes,
            alloc_ns: self.clock.ns(block.alloc),
            free_ns: free.map(|stamp| self.clock.ns(stamp)),
            site: block.site.map(|site| self.sites.id(site)),
            ordinal: block.ordinal,
            span: block.span,
            role,
        };
        self.write(|out| out.allocation(row));
    }

    pub(super) fn write_piece(
        &mut self,
        process: u32,
        piece: &Piece,
        free: Option<u64>,
        once: &FxHashSet<BlockKey>,
    ) {
        let block = Block {
            bytes: piece.bytes,
            alloc: piece.alloc,
            thread: piece.thread,
            span: piece.span,
            ordinal: piece.ordinal,
            kind: piece.kind,
            site: piece.site,
            output: false,
        };
        self.write_block(process, piece.start, &block, free, once);
    }

    fn role(&self, span: Option<u32>, output: bool, freed: bool, once: bool) -> Role {
        match span {
            _ if once => Role::Once,
            _ if output => Role::Output,
            Some(span) if freed && self.spans.is_open(span) => Role::Temporary,
            _ => Role::None,
        }
    }
}
