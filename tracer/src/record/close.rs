//! Writing what is not a block: tables and sums while the recording runs, and its end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use memtrace_trace::rows::{ModuleRow, ProcessRow, TimelineRow};
use memtrace_trace::{Lost, Peak, Totals};

use super::drain::Sink;
use super::launch::Ending;
use super::session::{Failure, Outcome, Session, TABLES_EVERY};

impl Session {
    /// The command has ended: reads what is left and closes the trace.
    pub(super) fn close(mut self, ending: Ending) -> Result<Outcome, Failure> {
        self.still_running = self.count_running();
        self.segment.header().detached.store(1, Ordering::SeqCst);
        while self.round(true) > 0 {}
        let stamp = self.fold.clock.stamp();
        let missing = self.fold.end_kernel(stamp);
        self.fold.samples_until(stamp);
        for (thread, usage) in self.drain.usage().collect::<Vec<_>>() {
            self.fold.writer_gone(thread, usage);
        }
        let root = self.fold.root;
        let last_image = self.fold.processes.iter().rposition(|process| process.row.pid == root);
        let alone = self.fold.processes.len() == 1;
        if let Some(process) = last_image.map(|index| &mut self.fold.processes[index]) {
            process.row.exit = (!self.fold.attached).then_some(ending.code);
            // ru_maxrss also counts what memtrace itself held when it forked, and children of the command.
            if alone && ending.max_resident_bytes > self.own_peak {
                process.resident_peak = process.resident_peak.max(ending.max_resident_bytes);
            }
        }
        self.note_kills(root, ending.signal);
        for index in 0..self.fold.processes.len() as u32 {
            self.fold.end_process(index, stamp);
            self.write_peak(index);
        }
        self.meta.notes = self.notes();
        self.meta.notes.extend(missing);
        self.meta.recorded.extend(self.fold.kernel_recorded());
        let known = self.fold.processes.iter().rev().find(|process| process.row.pid == root);
        let seen = known.and_then(|process| self.fold.with_kernel(process.row.clone()).exit);
        self.meta.exit = if self.fold.attached { seen } else { Some(ending.code) };
        self.meta.signal = ending.signal;
        self.write_tables(true);
        if let Some(error) = self.fold.failure.take() {
            return Err(Failure::recording(error));
        }
        let last_figures = self.last_figures();
        self.tell_last_spans();
        let (mut fold, meta) = (self.fold, self.meta);
        let sites = std::mem::take(&mut fold.sites);
        let out = fold.into_writer();
        let directory = out.directory().to_path_buf();
        out.finish(&meta).map_err(Failure::recording)?;
        // The trace is complete: nothing is lost with a tracer that is killed while it reads large files.
        let (sites, frames) = sites.named();
        memtrace_trace::replace_stacks(&directory, &sites, &frames).map_err(Failure::recording)?;
        last_figures.into_iter().for_each(|figures| self.live.tell_last(figures));
        Ok(Outcome { code: ending.code })
    }

    fn count_running(&self) -> usize {
        self.fold.processes.iter().filter(|process| process.end.is_none() && process.writers > 0).count()
    }

    fn write_peak(&mut self, index: u32) {
        let process = &self.fold.processes[index as usize];
        let (stamp, heap_bytes, mapped_bytes, device_bytes) = process.at_peak;
        let row = TimelineRow {
            process: index,
            time_ns: self.fold.clock.ns(stamp),
            reason: "peak".into(),
            live_bytes: process.row.peak_live_bytes,
            heap_bytes,
            mapped_bytes,
            resident_bytes: None,
            pages: None,
            device_bytes,
        };
        self.fold.write(|out| out.timeline(row));
    }

    /// Writes every table but `allocations` anew: a trace whose tracer is killed has recent ones.
    pub(super) fn write_tables(&mut self, last: bool) {
        self.last_tables = Instant::now();
        self.tables_every = TABLES_EVERY.max(Duration::from_nanos(self.fold.clock.now_ns() as u64) / 1000);
        let clock = &self.fold.clock;
        let processes: Vec<ProcessRow> = self
            .fold
            .processes
            .iter()
            .map(|process| ProcessRow {
                start_ns: clock.ns(process.start),
                end_ns: process.end.map(|stamp| clock.ns(stamp)),
                parted_ns: process.parted.map(|stamp| clock.ns(stamp)),
                peak_ns: clock.ns(process.at_peak.0),
                peak_resident_bytes: process.resident_peak.saturating_sub(process.row.probe_bytes),
                ..self.fold.with_garbage(process.row.clone())
            })
            .map(|row| self.fold.with_devices(self.fold.with_samples(self.fold.with_kernel(row))))
            .collect();
        self.sum_up(&processes);
        let threads = self.fold.threads.clone();
        let opened = self.fold.sites.opened.iter().cloned();
        let modules: Vec<ModuleRow> = self.fold.images.modules().chain(opened).collect();
        let (sites, frames) =
            (self.fold.sites.rows(self.fold.total.device_used.is_at_peak()), self.fold.sites.frames());
        let folded = self.fold.folded.rows(&self.fold.sites);
        let devices = self.fold.device_rows();
        let live = if last { Vec::new() } else { self.fold.live_set() };
        let meta = self.meta.clone();
        self.fold.write_spans();
        self.fold.write(|out| {
            out.processes(&processes)?;
            out.threads(&threads)?;
            out.modules(&modules)?;
            out.frames(&frames)?;
            out.folded(&folded)?;
            out.devices(&devices)?;
            out.sites(&sites)?;
            if last {
                return Ok(());
            }
            out.close_part()?;
            out.live(&live)?;
            out.meta(&meta)
        });
        self.snapshot_after = Instant::now() + self.last_tables.elapsed() * 20;
        self.snapshot_peak = self.fold.total.peak_live;
    }

    fn sum_up(&mut self, processes: &[ProcessRow]) {
        let sum = |field: fn(&ProcessRow) -> u64| processes.iter().map(field).sum::<u64>();
        let largest = |field: fn(&ProcessRow) -> u64| processes.iter().map(field).max().unwrap_or(0);
        let (total, garbage) = (&self.fold.total, self.fold.garbage.as_ref());
        let without_slot = self.segment.header().lost_without_slot.load(Ordering::Relaxed);
        self.meta.duration_ns = self.fold.clock.now_ns();
        self.meta.lost = Lost {
            events: sum(|row| row.lost_events) + without_slot,
            late_events: self.drain.late,
            unseen_releases: sum(|row| row.unseen_releases),
            kernel_events: self.fold.lost_by_kernel(),
            samples: self.fold.samples.missing().lost,
        };
        self.meta.peak = Peak {
            mapped_bytes: largest(|row| row.peak_mapped_bytes),
            // Sums are sampled; one process alone may have been larger in between.
            resident_sum_bytes: self.meta.peak.resident_sum_bytes.max(largest(|row| row.peak_resident_bytes)),
            live_bytes: total.peak_live,
            heap_bytes: total.peak_heap,
            resident_bytes: largest(|row| row.peak_resident_bytes),
            peak_ns: if total.peak_live > 0 { self.fold.clock.ns(total.peak) } else { 0 },
            gc_independent_bytes: garbage.map(|garbage| garbage.total.lower()),
            gc_independent_upper_bytes: garbage.map(|_| total.peak_live),
            garbage_at_peak_bytes: garbage.map(|garbage| garbage.total.garbage_at_peak()),
            device_driver_bytes: total.has_devices.then_some(total.device_driver.peak),
            device_used_bytes: total.has_devices.then(|| total.device_used.peak()),
        };
        self.meta.rows.folded = self.fold.folded.blocks();
        self.meta.totals = Totals {
            allocations: sum(|row| row.allocations),
            requested_bytes: sum(|row| row.requested_bytes),
        };
    }
}
