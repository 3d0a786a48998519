//! Takes ordered events and folds them into rows, peaks and spans.

use memtrace_trace::TraceWriter;
use memtrace_trace::rows::{AllocationRow, ArrayInfo, Kind, ProcessRow, Role, ThreadRow, TimelineRow};
use memtrace_wire::event::{Event, FAILED, Kind as Wire};
use rustc_hash::{FxHashMap, FxHashSet};

use super::clock::Clock;
use super::drain::{RingUsage, Sink, Writer};
use super::mappings::Piece;
use super::process::{Block, Process, Released};
use super::spans::{BlockKey, Spans};

/// Live bytes of all processes together, and their peak.
#[derive(Debug, Default, Clone, Copy)]
pub struct Total {
    live: u64,
    heap: u64,
    /// Peak of live bytes.
    pub peak_live: u64,
    /// Peak of heap bytes.
    pub peak_heap: u64,
    /// Stamp of the peak of live bytes.
    pub peak: u64,
}

/// What `--span` asks for.
pub struct WholeSpan {
    /// Name of the operator.
    pub name: String,
    /// Its input.
    pub input: ArrayInfo,
}

/// Everything folded so far.
pub struct Fold {
    /// Converts stamps.
    pub clock: Clock,
    /// All process images, by index.
    pub processes: Vec<Process>,
    /// All threads, by index.
    pub threads: Vec<ThreadRow>,
    /// All spans.
    pub spans: Spans,
    /// Sums.
    pub total: Total,
    commands: FxHashMap<(u32, u64), String>,
    /// The recorded command's own pid.
    pub root: u32,
    /// Nanoseconds threads waited for the tracer.
    pub waited_ns: u64,
    /// The first error of writing; after it nothing more is written.
    pub failure: Option<memtrace_trace::Error>,
    by_image: FxHashMap<(u32, u64), u32>,
    whole: Option<WholeSpan>,
    out: TraceWriter,
}

impl Fold {
    /// Nothing folded yet.
    pub fn new(clock: Clock, out: TraceWriter, whole: Option<WholeSpan>) -> Fold {
        Fold {
            clock,
            processes: Vec::new(),
            threads: Vec::new(),
            spans: Spans::default(),
            total: Total::default(),
            commands: FxHashMap::default(),
            root: 0,
            waited_ns: 0,
            failure: None,
            by_image: FxHashMap::default(),
            whole,
            out,
        }
    }

    /// The writer of the trace, to be closed.
    pub fn into_writer(self) -> TraceWriter {
        self.out
    }

    /// Does something with the writer, unless writing has failed before.
    pub fn write(&mut self, work: impl FnOnce(&mut TraceWriter) -> memtrace_trace::Result<()>) {
        if self.failure.is_none() {
            self.failure = work(&mut self.out).err();
        }
    }

    /// Index of the process image with this pid and first stamp.
    pub fn index_of(&self, image: (u32, u64)) -> Option<u32> {
        self.by_image.get(&image).copied()
    }

    /// The command line of a process image, which may have written events before it was known.
    pub fn name(&mut self, image: (u32, u64), command: String) {
        if let Some(process) = self.index_of(image) {
            self.processes[process as usize].row.command.clone_from(&command);
        }
        self.commands.insert(image, command);
    }

    fn process_of(&mut self, writer: Writer) -> u32 {
        if let Some(process) = self.by_image.get(&(writer.pid, writer.image)) {
            return *process;
        }
        let process = self.processes.len() as u32;
        let command = self.commands.get(&(writer.pid, writer.image)).cloned().unwrap_or_else(|| {
            // A forked child says no hello; it runs what its parent runs.
            let mut images = self.by_image.iter();
            let parent = images.find(|((_, image), _)| writer.forked && *image == writer.parent_image);
            parent.map(|(_, parent)| self.processes[*parent as usize].row.command.clone()).unwrap_or_default()
        });
        let row = ProcessRow {
            process,
            pid: writer.pid,
            ppid: writer.ppid,
            command,
            origin: if writer.forked { "fork" } else { "exec" }.into(),
            ..Default::default()
        };
        // A new image under a known pid: exec ended what was there, but its last events are still to come.
        let before = self.processes.iter().rposition(|old| old.row.pid == writer.pid && old.end.is_none());
        let mut image = Process::new(row, writer.claimed);
        image.replaces = before.map(|before| before as u32);
        self.processes.push(image);
        self.by_image.insert((writer.pid, writer.image), process);
        process
    }

    /// Ends what is left of a process: its live blocks become rows without a release.
    pub fn end_process(&mut self, index: u32, stamp: u64) {
        if self.processes[index as usize].end.is_some() {
            return;
        }
        let process = &mut self.processes[index as usize];
        let touched = process.mappings.touched_bytes();
        // A call that never returned released nothing.
        for held in std::mem::take(&mut process.held).into_values() {
            if let Some((address, block)) = held.block {
                process.blocks.insert(address, block);
            }
            process.mappings.restore(held.pieces);
        }
        self.total.live += process.mappings.touched_bytes() - touched;
        process.write_off_debts();
        process.end = Some(stamp);
        let whole = process.whole_span;
        let process = &self.processes[index as usize];
        if let Some(span) = whole {
            self.spans.end_whole(span, stamp, |key| process.is_alive(key));
        }
        let once = self.spans.process_ended(index);
        let process = &mut self.processes[index as usize];
        self.total.live -= process.live();
        self.total.heap -= process.heap;
        let blocks = std::mem::take(&mut process.blocks);
        let mappings = std::mem::take(&mut process.mappings);
        process.heap = 0;
        for (address, block) in &blocks {
            self.write_block(index, *address, block, None, &once);
        }
        for piece in mappings.iter() {
            self.write_piece(index, piece, None, &once);
        }
    }

    fn acquire(&mut self, writer: u32, kind: Kind, event: Event) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let (address, bytes, stamp) = (event.address, event.bytes, event.stamp);
        let (span, ordinal) =
            self.spans.acquired(writer, kind, (address, stamp), bytes, true, |key| process.is_alive(key));
        let block = Block { bytes, alloc: stamp, thread: writer, span, ordinal, kind, output: false };
        let old = process.acquire(address, block);
        if let Some(old) = old {
            self.spans.released(writer, old.span, old.alloc, old.bytes);
            self.total.live -= old.bytes;
            self.total.heap -= old.bytes;
            self.write_block(index, address, &old, Some(stamp), &FxHashSet::default());
        }
        self.total.live += bytes;
        self.total.heap += bytes;
        self.note_peak(index, stamp);
    }

    fn release(&mut self, writer: u32, address: u64, stamp: u64) {
        let index = self.threads[writer as usize].process;
        let patience = self.clock.ticks(10_000_000);
        let Released::Block(block) = self.processes[index as usize].release(address, stamp, patience) else {
            return;
        };
        self.block_ended(index, writer, address, &block, stamp);
    }

    fn block_ended(&mut self, index: u32, writer: u32, address: u64, block: &Block, stamp: u64) {
        self.total.live -= block.bytes;
        self.total.heap -= block.bytes;
        self.write_block(index, address, block, Some(stamp), &FxHashSet::default());
        self.spans.released(writer, block.span, block.alloc, block.bytes);
    }

    fn realloc_begin(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer as usize].process;
        let patience = self.clock.ticks(10_000_000);
        let process = &mut self.processes[index as usize];
        let held = match process.release(event.address, event.stamp, patience) {
            Released::Block(block) => {
                // Its address may be reused from now on, its bytes stay live until the call returns.
                process.heap += block.bytes;
                Some((event.address, block))
            }
            Released::Paid | Released::Unknown => None,
        };
        process.held.entry(writer).or_default().block = held;
    }

    fn realloc_end(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let held = process.held.get_mut(&writer).and_then(|held| held.block.take());
        if let Some((address, block)) = held {
            process.heap -= block.bytes;
            if event.bytes == FAILED {
                process.heap += block.bytes;
                process.blocks.insert(address, block);
                return;
            }
            self.block_ended(index, writer, address, &block, event.stamp);
        }
        if event.address != 0 && event.bytes != FAILED {
            self.acquire(writer, Kind::Realloc, event);
        }
    }

    /// A mapping call begins: what it will unmap or move is held until it returns.
    fn map_begin(&mut self, writer: u32, event: Event) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let before = process.mappings.touched_bytes();
        let pieces = process.mappings.take(event.address, event.bytes);
        self.total.live -= before - process.mappings.touched_bytes();
        process.held.entry(writer).or_default().pieces = pieces;
    }

    fn held_pieces(&mut self, writer: u32) -> Vec<Piece> {
        let index = self.threads[writer as usize].process;
        let held = self.processes[index as usize].held.get_mut(&writer);
        held.map(|held| std::mem::take(&mut held.pieces)).unwrap_or_default()
    }

    fn restore(&mut self, writer: u32, pieces: Vec<Piece>) {
        let process = &mut self.processes[self.threads[writer as usize].process as usize];
        let before = process.mappings.touched_bytes();
        process.mappings.restore(pieces);
        self.total.live += process.mappings.touched_bytes() - before;
    }

    fn end_pieces(&mut self, writer: u32, pieces: &[Piece], stamp: u64) {
        let index = self.threads[writer as usize].process;
        for piece in pieces {
            self.write_piece(index, piece, Some(stamp), &FxHashSet::default());
            if piece.is_writable_memory() {
                self.spans.released(writer, piece.span, piece.alloc, piece.bytes);
            }
        }
    }

    fn map_end(&mut self, writer: u32, event: Event) {
        let pieces = self.held_pieces(writer);
        if event.bytes == FAILED {
            return self.restore(writer, pieces);
        }
        self.end_pieces(writer, &pieces, event.stamp);
        self.map(writer, event, mapping_kind(event.extra), 0);
    }

    fn unmap_end(&mut self, writer: u32, event: Event) {
        let pieces = self.held_pieces(writer);
        if event.bytes == FAILED {
            self.restore(writer, pieces)
        } else {
            self.end_pieces(writer, &pieces, event.stamp)
        }
    }

    fn remap_end(&mut self, writer: u32, event: Event) {
        let pieces = self.held_pieces(writer);
        let kind = pieces.first().map_or(Kind::MapAnonymous, |piece| piece.kind);
        let touched = pieces.iter().map(|piece| piece.touched).sum::<u64>().min(event.bytes);
        if event.bytes == FAILED {
            return self.restore(writer, pieces);
        }
        if event.extra & libc::MREMAP_DONTUNMAP as u64 != 0 {
            self.restore(writer, pieces);
        } else {
            self.end_pieces(writer, &pieces, event.stamp);
        }
        self.map(writer, event, kind, touched);
    }

    fn map(&mut self, writer: u32, event: Event, kind: Kind, moved: u64) {
        let index = self.threads[writer as usize].process;
        let process = &mut self.processes[index as usize];
        let touched = process.mappings.touched_bytes();
        // Whatever still lies there was unmapped unseen (raw system calls).
        let unseen = process.mappings.take(event.address, event.bytes);
        let counts = matches!(kind, Kind::MapAnonymous | Kind::MapShared);
        let key: BlockKey = (event.address, event.stamp);
        let (span, ordinal) =
            self.spans.acquired(writer, kind, key, event.bytes, counts, |key| process.is_alive(key));
        process.mappings.insert(Piece {
            start: event.address,
            bytes: event.bytes,
            alloc: event.stamp,
            thread: writer,
            span,
            ordinal,
            kind,
            touched: moved,
        });
        process.row.allocations += 1;
        process.row.requested_bytes += event.bytes;
        process.row.peak_mapped_bytes = process.row.peak_mapped_bytes.max(process.mappings.mapped_bytes());
        self.total.live = self.total.live + process.mappings.touched_bytes() - touched;
        self.end_pieces(writer, &unseen, event.stamp);
        self.note_peak(index, event.stamp);
    }

    /// Mappings of a process were measured: `measure` tells how much of each is in memory.
    pub fn measure(&mut self, index: u32, stamp: u64, measure: impl FnMut(&Piece) -> Option<u64>) {
        let process = &mut self.processes[index as usize];
        let before = process.mappings.touched_bytes();
        process.mappings.measure(measure);
        self.total.live = self.total.live + process.mappings.touched_bytes() - before;
        self.note_peak(index, stamp);
    }

    #[inline]
    fn note_peak(&mut self, index: u32, stamp: u64) {
        self.processes[index as usize].note_peak(stamp);
        self.total.peak_heap = self.total.peak_heap.max(self.total.heap);
        if self.total.live > self.total.peak_live {
            self.total.peak_live = self.total.live;
            self.total.peak = stamp;
        }
    }

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

    fn write_block(
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
            site: None,
            ordinal: block.ordinal,
            span: block.span,
            role,
        };
        self.write(|out| out.allocation(row));
    }

    fn write_piece(&mut self, process: u32, piece: &Piece, free: Option<u64>, once: &FxHashSet<BlockKey>) {
        let block = Block {
            bytes: piece.bytes,
            alloc: piece.alloc,
            thread: piece.thread,
            span: piece.span,
            ordinal: piece.ordinal,
            kind: piece.kind,
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

fn mapping_kind(extra: u64) -> Kind {
    let (protection, flags) = ((extra >> 32) as i32, extra as u32 as i32);
    if flags & libc::MAP_ANONYMOUS == 0 {
        Kind::MapFile
    } else if protection == libc::PROT_NONE {
        Kind::MapReserved
    } else if flags & libc::MAP_PRIVATE != 0 {
        Kind::MapAnonymous
    } else {
        Kind::MapShared
    }
}

impl Sink for Fold {
    fn writer(&mut self, writer: Writer) -> u32 {
        let process = self.process_of(writer);
        let thread = self.threads.len() as u32;
        self.threads.push(ThreadRow { thread, process, tid: writer.tid, start_ns: -1, events: 0 });
        let image = &mut self.processes[process as usize];
        image.writers += 1;
        if writer.pid == self.root
            && !writer.forked
            && let Some(whole) = &self.whole
        {
            let span = *image.whole_span.get_or_insert_with(|| {
                self.spans.begin_whole(process, thread, image.start, &whole.name, whole.input.clone())
            });
            self.spans.enter(thread, span);
        }
        thread
    }

    #[inline]
    fn event(&mut self, writer: u32, event: Event, text: &[u8]) {
        let thread = &mut self.threads[writer as usize];
        thread.events += 1;
        if thread.start_ns < 0 {
            thread.start_ns = self.clock.ns(event.stamp);
            let process = thread.process;
            if let Some(replaced) = self.processes[process as usize].replaces.take() {
                self.end_process(replaced, event.stamp);
            }
        }
        match event.kind {
            Wire::Malloc => self.acquire(writer, Kind::Malloc, event),
            Wire::Calloc => self.acquire(writer, Kind::Calloc, event),
            Wire::Aligned => self.acquire(writer, Kind::Aligned, event),
            Wire::ReallocNew => self.acquire(writer, Kind::Realloc, event),
            Wire::Free => self.release(writer, event.address, event.stamp),
            Wire::ReallocBegin => self.realloc_begin(writer, event),
            Wire::ReallocEnd => self.realloc_end(writer, event),
            Wire::MapBegin | Wire::UnmapBegin | Wire::RemapBegin => self.map_begin(writer, event),
            Wire::MapEnd => self.map_end(writer, event),
            Wire::UnmapEnd => self.unmap_end(writer, event),
            Wire::RemapEnd => self.remap_end(writer, event),
            Wire::SpanBegin => {
                let process = self.threads[writer as usize].process;
                self.spans.begin(process, writer, event.address, event.stamp, text);
            }
            Wire::SpanEnd => self.span_end(writer, event, text),
            Wire::Access | Wire::Placement => {}
        }
    }

    fn writer_gone(&mut self, writer: u32, usage: RingUsage) {
        let process = &mut self.processes[self.threads[writer as usize].process as usize];
        process.writers -= 1;
        process.row.lost_events += usage.lost;
        process.note_ring(usage.slot, usage.touched_bytes);
        process
            .held
            .retain(|thread, held| *thread != writer || held.block.is_some() || !held.pieces.is_empty());
        self.waited_ns += usage.waited_ns;
        self.spans.thread_ended(writer);
    }
}

impl Fold {
    fn span_end(&mut self, writer: u32, event: Event, text: &[u8]) {
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
