//! Heap blocks: acquired, released, reallocated; and the outputs a span leaves behind.

use memtrace_trace::rows::Kind;
use memtrace_wire::event::{Event, FAILED};
use rustc_hash::FxHashSet;

use super::Fold;
use crate::record::spans::Acquired;
use crate::record::state::blocks::{Block, Part, Site};
use crate::record::state::heap::Released;
use crate::record::state::in_flight::{InFlight, Unknown};
use crate::record::state::memory::{BlockKey, Memory};
use crate::record::transport::backlog::Backlog;

/// How much earlier a release may be stamped than the acquire of the block by another thread (at
/// most 0.9 µs were seen where 64 threads fought for one block).
pub(super) const EARLY_NS: u64 = 10_000;

/// What calls are in rows, in the order of [`CALLS`](memtrace_wire::event::CALLS).
const KINDS: [Kind; 4] = [Kind::Malloc, Kind::Calloc, Kind::Aligned, Kind::Realloc];

/// How many events ahead the cache lines of a block are prefetched.
const EXPECTED: usize = 16;

impl Fold {
    /// Takes heap events as long as they come, those in two words: see
    /// [`Sink::heap_events`](crate::record::transport::drain::Sink).
    pub(super) fn heap_run(&mut self, writer: u32, events: &mut Backlog, until: u64, passed_on: u64) -> u64 {
        let thread = &self.threads[writer];
        let index = thread.process;
        let (mut late, mut count) = (0, 0);
        let before = self.processes[index].acquired();
        // The first event of a thread also begins it.
        if thread.events == 0 {
            return 0;
        }
        loop {
            let blocks = self.processes[index].heap.blocks();
            events.coming(EXPECTED).into_iter().for_each(|address| blocks.expect(address));
            events.coming(EXPECTED / 2).into_iter().for_each(|address| blocks.expect_soon(address));
            let Some(pair) = events.next_pair_until(until) else { break };
            count += 1;
            late += u64::from(pair.stamp < passed_on);
            match pair.call {
                Some(call) => {
                    let kind = KINDS[call as usize % KINDS.len()];
                    let site = self.sites.acquired(writer, pair.stack, pair.bytes);
                    self.acquired(index, writer, kind, (pair.address, pair.stamp), pair.bytes, site);
                }
                None => self.released(index, writer, pair.address, pair.stamp),
            }
        }
        self.threads[writer].events += count;
        self.note_unattributed(index, writer, before);
        self.now = self.now.max(events.taken());
        late
    }

    /// A heap block was acquired, by an event of its own.
    pub(super) fn acquire(&mut self, writer: u32, kind: Kind, event: Event) {
        let index = self.threads[writer].process;
        let site = self.sites.acquired(writer, event.stack, event.bytes);
        let before = self.processes[index].acquired();
        self.acquired(index, writer, kind, (event.address, event.stamp), event.bytes, site);
        self.note_unattributed(index, writer, before);
    }

    /// Counts what the thread has acquired since `before` if that was in no span while spans of
    /// other threads ran.
    #[inline]
    pub(super) fn note_unattributed(&mut self, index: u32, writer: u32, before: (u64, u64)) {
        let row = &mut self.processes[index].row;
        let (blocks, bytes) = (row.allocations - before.0, row.requested_bytes - before.1);
        if blocks > 0 && self.spans.leave_out(index, writer) {
            row.unattributed_allocations += blocks;
            row.unattributed_bytes += bytes;
        }
    }

    #[inline(always)]
    fn acquired(
        &mut self,
        index: u32,
        writer: u32,
        kind: Kind,
        key: BlockKey,
        bytes: u64,
        site: Option<Site>,
    ) {
        let (address, stamp) = key;
        let process = &mut self.processes[index];
        let (span, ordinal) = match self.spans.is_outside(writer) {
            true => (None, 0),
            false => {
                let acquired = Acquired { key, bytes, kind, counts: true, site };
                self.spans.acquired(writer, &acquired, |key| process.is_alive(key))
            }
        };
        let block =
            Block { bytes, alloc: stamp, thread: writer, span, ordinal, kind, site, part: Part::None };
        let old = process.acquire(address, block);
        let early = process.heap.has_early_releases();
        self.count(index, site, bytes as i64);
        if let Some(old) = old {
            self.replaced_by_acquire(index, writer, address, &old, stamp);
        }
        if self.is_large(&block) {
            self.large_block_begins(index, address, &block);
        }
        self.note_peak(index, stamp);
        if early {
            self.release_early(index, writer, address, stamp);
        }
    }

    /// A block whose release is late: its address was acquired again.
    #[cold]
    fn replaced_by_acquire(&mut self, index: u32, writer: u32, address: u64, old: &Block, stamp: u64) {
        self.spans.released(writer, old.span, old.alloc, old.bytes);
        self.count(index, old.site, -(old.bytes as i64));
        if self.is_large(old) {
            self.note_untouched(index, address, old, Some(stamp));
        }
        self.write_block(index, address, old, Some(stamp), &FxHashSet::default());
    }

    /// The block that was just acquired may have been released already, by the stamps.
    #[cold]
    fn release_early(&mut self, index: u32, writer: u32, address: u64, stamp: u64) {
        let patience = self.clock.ticks(EARLY_NS);
        let early = self.processes[index].early_release(writer, address, stamp, patience);
        if let Some(releaser) = early {
            self.released(index, releaser, address, stamp);
        }
    }

    #[inline(always)]
    pub(super) fn released(&mut self, index: u32, writer: u32, address: u64, stamp: u64) {
        match self.processes[index].release(writer, address, stamp, self.clock.patience()) {
            Released::Block(block) => {
                self.note_released(index, writer, &block);
                self.block_ended(index, writer, address, &block, stamp);
            }
            Released::Settled => {}
            Released::Unknown => self.released_unknown(index, writer, address, stamp),
        }
    }

    #[cold]
    fn released_unknown(&mut self, index: u32, writer: u32, address: u64, stamp: u64) {
        let before = self.released_by_other(index, writer, address, stamp);
        self.processes[index].released_unknown(writer, address, stamp, before);
    }

    /// The other thread whose release has just ended the last block at this address.
    #[cold]
    fn released_by_other(&self, index: u32, writer: u32, address: u64, stamp: u64) -> Option<u32> {
        let patience = self.clock.ticks(EARLY_NS);
        self.processes[index].heap.released_by_other(writer, address, stamp, patience)
    }

    #[inline(always)]
    fn block_ended(&mut self, index: u32, writer: u32, address: u64, block: &Block, stamp: u64) {
        if self.is_large(block) {
            self.large_block_ends(index, address, block, stamp);
        }
        self.count(index, block.site, -(block.bytes as i64));
        self.write_block(index, address, block, Some(stamp), &FxHashSet::default());
        self.spans.released(writer, block.span, block.alloc, block.bytes);
    }

    pub(super) fn realloc_begin(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer].process;
        let process = &mut self.processes[index];
        let released = process.release(writer, event.address, event.stamp, self.clock.patience());
        let (address, mut block, mut unknown) = (event.address, None, None);
        match released {
            Released::Block(given) => {
                // Its address may be reused from now on, its bytes stay live until the call returns.
                process.heap.begin_in_flight(given.bytes);
                block = Some((address, given));
            }
            Released::Settled => {}
            Released::Unknown => {
                let before = self.released_by_other(index, writer, address, event.stamp);
                unknown = Some(Unknown { address, before });
            }
        }
        self.processes[index].begin_call(writer, InFlight::Realloc { block, unknown });
    }

    pub(super) fn realloc_end(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer].process;
        let process = &mut self.processes[index];
        let call = process.finish_call(writer, |call| matches!(call, InFlight::Realloc { .. }));
        if event.bytes == FAILED {
            return call.into_iter().for_each(|call| process.restore(call));
        }
        if let Some(InFlight::Realloc { block, unknown }) = call {
            if let Some((address, block)) = block {
                process.heap.end_in_flight(block.bytes);
                self.block_ended(index, writer, address, &block, event.stamp);
            } else if let Some(unknown) = unknown {
                let (moved, stamp, patience) = (event.address, event.stamp, self.clock.patience());
                if let Some(block) = process.reallocated_unknown(writer, unknown, moved, stamp, patience) {
                    self.block_ended(index, writer, unknown.address, &block, stamp);
                }
            }
        }
        if event.address != 0 {
            self.acquire(writer, Kind::Realloc, event);
        }
    }

    /// Adds heap bytes to the sums over all processes.
    #[inline(always)]
    fn count(&mut self, index: u32, site: Option<Site>, bytes: i64) {
        if self.processes[index].parted.is_none() {
            self.totals.change_heap(bytes);
            self.sites.accounts_mut().count_block(site, bytes);
        }
    }

    /// Live bytes may have grown.
    #[inline(always)]
    pub(super) fn note_peak(&mut self, index: u32, stamp: u64) {
        self.processes[index].note_peak(stamp);
        if let Some(garbage) = &mut self.garbage {
            garbage.note(index, stamp, self.processes[index].live(), self.totals.live());
        }
        if self.totals.note_peak(stamp) {
            self.sites.accounts_mut().new_peak();
        }
    }
}
