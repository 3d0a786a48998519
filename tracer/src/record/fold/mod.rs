//! Takes ordered events and folds them into rows, peaks and spans.

mod devices;
mod folded;
mod garbage;
mod heap;
mod images;
mod maps;
mod rows;
mod spans;

use memtrace_trace::TraceWriter;
use memtrace_trace::rows::{ArrayInfo, Kind, ThreadRow};
use memtrace_wire::event::{ENDING_EXIT, ENDING_WAITS, Event, Kind as Wire};
use rustc_hash::FxHashMap;

use crate::record::backlog::Backlog;
use crate::record::clock::Clock;
use crate::record::devices::{Sum, Used};
use crate::record::drain::{RingUsage, Sink, Writer};
use crate::record::garbage::Garbage;
use crate::record::kernel::Kernel;
use crate::record::launched::Launched;
use crate::record::oom::Cgroups;
use crate::record::process::Process;
use crate::record::samples::Samples;
use crate::record::sites::{Site, Sites};
use crate::record::spans::Spans;

use self::devices::Released;

pub use folded::{Folded, Keep};
pub use images::Images;

/// Live bytes of all processes together, and their peak.
#[derive(Debug, Default, Clone, Copy)]
pub struct Total {
    /// Live bytes now.
    pub live: u64,
    /// Heap bytes now.
    pub heap: u64,
    /// Peak of live bytes.
    pub peak_live: u64,
    /// Peak of heap bytes.
    pub peak_heap: u64,
    /// Stamp of the peak of live bytes.
    pub peak: u64,
    /// Some process has had memory of a device.
    pub has_devices: bool,
    /// Driver bytes of all devices.
    pub device_driver: Sum,
    /// Used bytes of all devices.
    pub device_used: Used,
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
    /// Call stacks of large blocks.
    pub sites: Sites,
    /// Sums.
    pub total: Total,
    /// Who said hello.
    pub images: Images,
    /// Programs that were started and may not have.
    pub launched: Launched,
    /// Where kills for lack of memory are counted.
    pub cgroups: Cgroups,
    /// Blocks without rows of their own.
    pub folded: Folded,
    /// Blocks of devices whose release may yet fail, by the thread that said it.
    released: FxHashMap<u32, Released>,
    /// What is known of garbage, if `--gc` asks for it.
    pub garbage: Option<Garbage>,
    /// The recording is of processes that ran before: none of them has a probe.
    pub attached: bool,
    /// What the kernel sees, if it is asked.
    pub kernel: Option<Kernel>,
    /// What perf events sample.
    pub samples: Samples,
    /// The recorded command's own pid.
    pub root: u32,
    /// Threads that wait for a look at their process, which is about to end; whether by exit.
    pub ending: Vec<(u32, bool)>,
    /// Images that another one has replaced by exec: none of their threads is left.
    pub replaced: Vec<u32>,
    /// Processes without a thread that has a ring.
    pub silent: Vec<u32>,
    /// Nanoseconds threads waited for the tracer.
    pub waited_ns: u64,
    /// The first error of writing; after it nothing more is written.
    pub failure: Option<memtrace_trace::Error>,
    /// Stamp of the last event that was folded.
    now: u64,
    whole: Option<WholeSpan>,
    out: TraceWriter,
}

impl Fold {
    /// Nothing folded yet.
    pub fn new(clock: Clock, out: TraceWriter, images: Images, whole: Option<WholeSpan>) -> Fold {
        Fold {
            clock,
            processes: Vec::new(),
            threads: Vec::new(),
            spans: Spans::default(),
            sites: Sites::default(),
            total: Total::default(),
            images,
            launched: Launched::default(),
            cgroups: Cgroups::default(),
            folded: Folded::default(),
            released: FxHashMap::default(),
            garbage: None,
            attached: false,
            kernel: None,
            samples: Samples::default(),
            root: 0,
            ending: Vec::new(),
            replaced: Vec::new(),
            silent: Vec::new(),
            waited_ns: 0,
            failure: None,
            now: 0,
            whole,
            out,
        }
    }

    /// Looks for garbage from now on (`--gc`).
    pub fn watch_garbage(&mut self) {
        self.garbage = Some(Garbage::default());
        self.spans.watch_garbage();
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

    /// Writes the table of spans.
    pub fn write_spans(&mut self) {
        let Fold { clock, sites, spans, out, failure, .. } = self;
        if failure.is_none() {
            *failure = out.spans(spans.rows(|stamp| clock.ns(stamp), |site| sites.id(site))).err();
        }
    }

    /// The process of a thread.
    fn process(&mut self, writer: u32) -> &mut Process {
        &mut self.processes[self.threads[writer as usize].process as usize]
    }

    #[cold]
    fn first_event(&mut self, writer: u32, stamp: u64) {
        let thread = &mut self.threads[writer as usize];
        thread.start_ns = self.clock.ns(stamp);
        let process = thread.process;
        if let Some(replaced) = self.processes[process as usize].replaces.take() {
            self.processes[replaced as usize].replaced = true;
            self.end_process(replaced, stamp);
        }
    }

    /// Adds heap bytes to the sums over all processes.
    #[inline(always)]
    fn count(&mut self, index: u32, site: Option<Site>, bytes: i64) {
        if self.processes[index as usize].parted.is_none() {
            self.total.live = self.total.live.wrapping_add_signed(bytes);
            self.total.heap = self.total.heap.wrapping_add_signed(bytes);
            self.sites.count_block(site, bytes);
        }
    }

    /// So late is it now, though nothing but the kernel tells of it.
    pub fn at(&mut self, stamp: u64) {
        self.now = self.now.max(stamp);
    }

    /// What a process holds no longer counts for all together: the kernel takes it back now.
    pub fn part(&mut self, index: u32) -> &mut Process {
        if self.processes[index as usize].parted.is_none() {
            self.part_devices(index);
        }
        let process = &mut self.processes[index as usize];
        if process.parted.is_none() {
            process.parted = Some(self.now);
            self.total.live -= process.live();
            self.total.heap -= process.heap;
            process.each_block(|block| self.sites.count_block(block.site, -(block.bytes as i64)));
            process.each_piece(|piece| self.sites.change(piece.site, -(piece.touched as i64)));
        }
        process
    }

    /// Ends what is left of a process: its live blocks become rows without a release.
    pub fn end_process(&mut self, index: u32, stamp: u64) {
        if self.processes[index as usize].end.is_some() {
            return;
        }
        let process = &mut self.processes[index as usize];
        // A call that never returned released nothing.
        process.give_all_back();
        process.write_off_debts();
        process.end = Some(stamp);
        let whole = process.whole_span;
        let process = &self.processes[index as usize];
        if let Some(span) = whole {
            self.spans.end_whole(span, stamp, process);
        }
        let once = self.spans.process_ended(index);
        self.garbage_ended(index, stamp);
        let process = &self.processes[index as usize];
        let holdings = (!process.told_ending).then(|| self.holdings(process));
        let process = self.part(index);
        process.killed_with = holdings;
        let blocks = std::mem::take(&mut process.blocks);
        let mappings = std::mem::take(&mut process.mappings);
        process.heap = 0;
        for (address, block) in blocks.iter() {
            if self.is_large(&block) {
                self.note_untouched(index, address, &block, None);
            }
            self.write_block(index, address, &block, None, &once);
        }
        for piece in mappings.iter() {
            self.write_piece(index, piece, None, &once);
        }
        self.end_devices(index);
        self.sites.end(index);
    }

    /// A program is about to be executed, or was spawned and may be at work already.
    fn started(&mut self, event: Event, text: &[u8]) {
        const SPAWNING_NS: u64 = 10_000_000_000;
        let pid = event.address as u32;
        let before = if event.kind == Wire::Spawned { self.clock.ticks(SPAWNING_NS) } else { 0 };
        let known = self.images.arrived_since(pid, event.stamp.saturating_sub(before));
        self.launched.started(pid, text, known);
    }

    /// The process says that it will exit or become another program.
    fn ending(&mut self, writer: u32, event: Event) {
        let process = self.process(writer);
        process.resident_peak = process.resident_peak.max(event.bytes);
        process.told_ending = true;
        let exits = event.address & !ENDING_WAITS == ENDING_EXIT;
        if event.address & ENDING_WAITS != 0 {
            self.ending.push((writer, exits));
        } else if exits {
            self.part(self.threads[writer as usize].process);
        }
    }

    /// Hands what mappings of a process have changed on to their sites.
    pub(super) fn settle_sites(&mut self, index: u32) {
        let process = &mut self.processes[index as usize];
        let counts = process.parted.is_none();
        for (site, bytes) in process.mappings.changes.drain(..).filter(|_| counts) {
            self.sites.change(site, bytes);
        }
    }

    #[inline(always)]
    pub(super) fn note_peak(&mut self, index: u32, stamp: u64) {
        self.processes[index as usize].note_peak(stamp);
        if let Some(garbage) = &mut self.garbage {
            garbage.note(index, stamp, self.processes[index as usize].live(), self.total.live);
        }
        self.total.peak_heap = self.total.peak_heap.max(self.total.heap);
        if self.total.live > self.total.peak_live {
            self.total.peak_live = self.total.live;
            self.total.peak = stamp;
            self.sites.new_peak();
        }
    }
}

impl Sink for Fold {
    fn pause(&mut self, horizon: u64) -> Option<u64> {
        let sample = self.next_sample(horizon);
        let kernel = self.kernel.as_mut().and_then(|kernel| kernel.pause(sample.unwrap_or(horizon)));
        kernel.or(sample)
    }

    fn paused(&mut self, stamp: u64) {
        self.kernel_until(stamp);
        self.samples_until(stamp);
    }

    fn writer(&mut self, writer: Writer) -> u32 {
        let process = self.process_of(writer);
        let thread = self.threads.len() as u32;
        self.threads.push(ThreadRow { thread, process, tid: writer.tid, start_ns: -1, events: 0 });
        self.samples_thread(process, writer.tid, thread);
        let image = &mut self.processes[process as usize];
        image.writers += 1;
        if image.row.pid == self.root
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

    fn heap_events(&mut self, writer: u32, events: &mut Backlog, until: u64, passed_on: u64) -> u64 {
        self.heap_run(writer, events, until, passed_on)
    }

    fn event(&mut self, writer: u32, event: Event, text: &[u8]) {
        if self.threads[writer as usize].events == 0 {
            self.first_event(writer, event.stamp);
        }
        self.now = event.stamp;
        self.threads[writer as usize].events += 1;
        self.kernel_until(event.stamp);
        self.samples_until(event.stamp);
        match event.kind {
            Wire::ReallocBegin => self.realloc_begin(writer, event),
            Wire::ReallocEnd => self.realloc_end(writer, event),
            Wire::MapBegin | Wire::UnmapBegin => self.map_begin(writer, event),
            Wire::RemapBegin => self.remap_begin(writer, event),
            Wire::MapEnd => self.map_end(writer, event),
            Wire::UnmapEnd => self.unmap_end(writer, event),
            Wire::RemapEnd => self.remap_end(writer, event),
            Wire::SpanBegin => self.span_begin(writer, event, text),
            Wire::SpanEnd => self.span_end(writer, event, text),
            Wire::SpanHand | Wire::SpanTake | Wire::SpanSwitch => {
                let process = self.threads[writer as usize].process;
                match event.kind {
                    Wire::SpanHand => self.spans.hand(process, writer, event.address),
                    Wire::SpanTake => self.spans.take(process, writer, event.address, event.bytes != 0),
                    _ => self.spans.switch_to(process, writer, event.address),
                }
            }
            Wire::Touched => self.touched(writer, event),
            Wire::Ending => self.ending(writer, event),
            Wire::Exec | Wire::Spawned => self.started(event, text),
            Wire::ExecFailed => {
                self.process(writer).told_ending = false;
                self.launched.failed(event.address as u32);
            }
            Wire::CollectBegin | Wire::CollectEnd | Wire::Collector => self.collector(writer, event),
            Wire::Frames => {
                let process = self.threads[writer as usize].process;
                self.sites.describe(process, writer, event.address, text);
            }
            Wire::PythonCode => self.sites.code(self.threads[writer as usize].process, text),
            Wire::Module => self.sites.module(self.threads[writer as usize].process, text),
            Wire::Malloc => self.acquire(writer, Kind::Malloc, event),
            Wire::Calloc => self.acquire(writer, Kind::Calloc, event),
            Wire::Aligned => self.acquire(writer, Kind::Aligned, event),
            Wire::ReallocNew => self.acquire(writer, Kind::Realloc, event),
            Wire::Free => {
                self.released(self.threads[writer as usize].process, writer, event.address, event.stamp)
            }
            Wire::DeviceAcquire
            | Wire::DeviceRelease
            | Wire::DeviceKept
            | Wire::DeviceUnmap
            | Wire::DevicePool
            | Wire::DeviceEnd
            | Wire::DeviceFound
            | Wire::DeviceBlock => self.device(writer, event, text),
            Wire::Access | Wire::Placement => {}
        }
    }

    fn writer_gone(&mut self, writer: u32, usage: RingUsage) {
        let process = &mut self.processes[self.threads[writer as usize].process as usize];
        process.writers -= 1;
        process.row.lost_events += usage.lost;
        process.note_ring(usage.slot, usage.touched_bytes);
        process.thread_gone(writer);
        if process.writers == 0 {
            self.silent.push(process.row.process);
        }
        self.waited_ns += usage.waited_ns;
        self.settle_released(writer);
        self.spans.thread_ended(writer);
        self.sites.thread_gone(writer);
    }
}
