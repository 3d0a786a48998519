//! Where the drain passes events on to: each goes to the part of the fold that it is for.

use memtrace_trace::rows::{Kind, ThreadRow};
use memtrace_wire::event::{Event, Kind as Wire};

use super::Fold;
use crate::record::state::process::Interpreter;
use crate::record::transport::backlog::Backlog;
use crate::record::transport::drain::{RingUsage, Sink, Writer};

impl Sink for Fold {
    fn pause(&mut self, horizon: u64) -> Option<u64> {
        let sample = self.samples.pause(&self.clock, horizon);
        let kernel = self.kernel.as_mut().and_then(|kernel| kernel.pause(sample.unwrap_or(horizon)));
        kernel.or(sample)
    }

    fn paused(&mut self, stamp: u64) {
        self.advance(stamp);
    }

    fn writer(&mut self, writer: Writer) -> u32 {
        let process = self.process_of_image(writer);
        let thread = self.add_thread(process, writer.tid, -1);
        self.samples.note_thread(process, writer.tid, thread);
        let image = &mut self.processes[process];
        image.writers += 1;
        if image.writers > 1 {
            image.heap.share();
        }
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
        if self.threads[writer].events == 0 {
            self.first_event(writer, event.stamp);
        }
        self.now = event.stamp;
        self.threads[writer].events += 1;
        self.advance(event.stamp);
        match event.kind {
            Wire::ReallocBegin => self.realloc_begin(writer, event),
            Wire::ReallocEnd => self.realloc_end(writer, event),
            Wire::MapBegin | Wire::UnmapBegin => self.map_begin(writer, event),
            Wire::RemapBegin => self.remap_begin(writer, event),
            Wire::MapEnd => self.map_end(writer, event),
            Wire::UnmapEnd => self.unmap_end(writer, event),
            Wire::RemapEnd => self.remap_end(writer, event),
            Wire::Touched => self.touched(writer, event),
            Wire::Protect => self.protected(writer, event),
            Wire::Object => self.object_announced(writer, event),
            Wire::SpanBegin => self.span_begin(writer, event, text),
            Wire::SpanEnd => self.span_end(writer, event, text),
            Wire::SpanExport | Wire::SpanAdopt | Wire::SpanActivate => self.span_moved(writer, event),
            Wire::Ending => self.ending(writer, event),
            Wire::MainEnded => self.main_ended(self.process_of(writer)),
            Wire::Refused => self.refused(writer, event),
            Wire::Python => {
                let found = Interpreter { reading: event.address, version: event.bytes as u32 };
                self.process_mut_of(writer).interpreter = Some(found);
            }
            Wire::Exec | Wire::Spawned => self.started(event, text),
            Wire::ExecFailed => self.exec_failed(writer, event),
            Wire::CollectBegin | Wire::CollectEnd | Wire::Collector => self.collector(writer, event),
            Wire::Frames | Wire::PythonCode | Wire::Module => self.described(writer, event, text),
            Wire::Malloc => self.acquire(writer, Kind::Malloc, event),
            Wire::Calloc => self.acquire(writer, Kind::Calloc, event),
            Wire::Aligned => self.acquire(writer, Kind::Aligned, event),
            Wire::ReallocNew => self.acquire(writer, Kind::Realloc, event),
            Wire::Free => self.released(self.process_of(writer), writer, event.address, event.stamp),
            Wire::DeviceAcquire
            | Wire::DeviceRelease
            | Wire::DeviceReleaseFailed
            | Wire::DeviceUnmap
            | Wire::DevicePool
            | Wire::DeviceEnd
            | Wire::DeviceFound
            | Wire::DeviceBlock => self.device(writer, event, text),
            Wire::Placement => self.placed(writer, event),
            Wire::Used => self.used(writer, event),
            Wire::Access => {}
        }
    }

    fn writer_gone(&mut self, writer: u32, usage: RingUsage) {
        let process = self.process_mut_of(writer);
        process.writers -= 1;
        process.row.lost_events = process.row.lost_events.saturating_add(usage.lost);
        process.note_ring(usage.ring, usage.touched_bytes);
        process.thread_gone(writer);
        if process.writers == 0 {
            let index = process.row.process;
            self.lifecycle.silent(index);
        }
        self.waited_ns += usage.waited_ns;
        self.settle_device_release(writer);
        self.spans.thread_ended(writer);
        self.sites.thread_gone(writer);
        self.threads.ended(writer);
    }
}

impl Fold {
    /// A thread of a process was met.
    pub(super) fn add_thread(&mut self, process: u32, tid: u32, start_ns: i64) -> u32 {
        let thread = self.threads.met();
        self.processes[process].threads.insert(thread);
        self.threads.push(ThreadRow { thread, process, tid, start_ns, events: 0 })
    }

    /// What call stacks refer to was described.
    fn described(&mut self, writer: u32, event: Event, text: &[u8]) {
        let process = self.process_of(writer);
        match event.kind {
            Wire::Frames => self.sites.describe(process, writer, event.address, text),
            Wire::PythonCode => self.sites.code(process, text),
            _ => self.sites.module(process, text),
        }
    }
}
