//! Heap blocks: acquired, released, reallocated; and the outputs a span leaves behind.

use memtrace_trace::rows::Kind;
use memtrace_wire::event::{Event, FAILED};
use memtrace_wire::stack::STACK_THRESHOLD;
use rustc_hash::FxHashSet;

use super::Fold;
use crate::record::process::{Block, Held, Released};

/// How much earlier a release may be stamped than the acquire of the block by another thread (at most 0.9 µs were
/// seen where 64 threads fought for one block).
const EARLY_NS: u64 = 10_000;

impl Fold {
    pub(super) fn acquire(&mut self, writer: u32, kind: Kind, event: Event) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let (address, bytes, stamp) = (event.address, event.bytes, event.stamp);
        let (span, ordinal) =
            self.spans.acquired(writer, kind, (address, stamp), bytes, true, |key| process.is_alive(key));
        let site =
            if bytes >= STACK_THRESHOLD as u64 { self.sites.acquired(writer, address, bytes) } else { None };
        let block = Block { bytes, alloc: stamp, thread: writer, span, ordinal, kind, site, output: false };
        let old = process.acquire(address, block);
        if let Some(old) = old {
            self.spans.released(writer, old.span, old.alloc, old.bytes);
            self.count(index, old.site, -(old.bytes as i64));
            self.write_block(index, address, &old, Some(stamp), &FxHashSet::default());
        }
        self.count(index, site, bytes as i64);
        self.note_peak(index, stamp);
        if self.processes[index as usize].has_early_releases() {
            self.release_early(index, writer, address, stamp);
        }
    }

    /// The block that was just acquired may have been released already, by the stamps.
    #[cold]
    fn release_early(&mut self, index: u32, writer: u32, address: u64, stamp: u64) {
        let patience = self.clock.ticks(EARLY_NS);
        let early = self.processes[index as usize].early_release(writer, address, stamp, patience);
        if let Some(releaser) = early {
            self.release(releaser, address, stamp);
        }
    }

    pub(super) fn release(&mut self, writer: u32, address: u64, stamp: u64) {
        let index = self.threads[writer as usize].process;
        let patience = self.clock.ticks(10_000_000);
        let Released::Block(block) = self.processes[index as usize].release(writer, address, stamp, patience)
        else {
            return;
        };
        self.note_released(index, writer, &block);
        self.block_ended(index, writer, address, &block, stamp);
    }

    fn block_ended(&mut self, index: u32, writer: u32, address: u64, block: &Block, stamp: u64) {
        self.count(index, block.site, -(block.bytes as i64));
        self.write_block(index, address, block, Some(stamp), &FxHashSet::default());
        self.spans.released(writer, block.span, block.alloc, block.bytes);
    }

    pub(super) fn realloc_begin(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer as usize].process;
        let patience = self.clock.ticks(10_000_000);
        let process = &mut self.processes[index as usize];
        let released = process.release_if_known(event.address, event.stamp, patience);
        let unknown = matches!(released, Released::Unknown);
        let mut held = None;
        if let Released::Block(block) = released {
            // Its address may be reused from now on, its bytes stay live until the call returns.
            process.heap += block.bytes;
            held = Some((event.address, block));
        }
        process.hold(writer, Held::Block { block: held, unknown });
    }

    pub(super) fn realloc_end(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let held = process.take_held(writer, |held| matches!(held, Held::Block { .. }));
        if event.bytes == FAILED {
            return held.into_iter().for_each(|held| process.give_back(held));
        }
        if let Some(Held::Block { block, unknown }) = held {
            if unknown {
                *process.unknown_releases() += 1;
            }
            if let Some((address, block)) = block {
                process.heap -= block.bytes;
                self.block_ended(index, writer, address, &block, event.stamp);
            }
        }
        if event.address != 0 {
            self.acquire(writer, Kind::Realloc, event);
        }
    }

    pub(super) fn span_end(&mut self, writer: u32, event: Event, text: &[u8]) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let outputs = self.spans.end(index, event.address, event.stamp, text, |key| process.is_alive(key));
        for (address, alloc) in outputs {
            if let Some(block) = process.blocks.get_mut(&address).filter(|block| block.alloc == alloc) {
                block.output = true;
            }
        }
    }
}
