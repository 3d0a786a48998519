//! The tables of the trace other than `allocations`.

use memtrace_trace::rows::{ModuleRow, ProcessRow, ThreadRow, TimelineRow};
use memtrace_trace::{Meta, TraceWriter};

use super::Fold;
use crate::record::kernel::{self, exit_code};
use crate::record::sites::Sites;
use crate::record::state::process::Process;

impl Fold {
    /// The rows of `processes` that have not left.
    pub fn process_rows(&self) -> Vec<ProcessRow> {
        self.processes.iter().map(|process| self.process_row(process)).collect()
    }

    pub(super) fn process_row(&self, process: &Process) -> ProcessRow {
        let clock = &self.clock;
        let row = ProcessRow {
            start_ns: clock.ns(process.start),
            end_ns: process.end.map(|stamp| clock.ns(stamp)),
            parted_ns: process.parted.map(|stamp| clock.ns(stamp)),
            main_end_ns: process.main_end.map(|end| clock.ns(end.stamp)),
            live_bytes_at_end: process.main_end.map(|end| end.live),
            peak_ns: clock.ns(process.at_peak.stamp),
            peak_resident_bytes: process.residency.peak().saturating_sub(process.row.probe_bytes),
            ..self.with_garbage(process.row.clone())
        };
        self.with_devices(self.samples.complete(self.with_kernel(row)))
    }

    /// A row with what the kernel saw of its process.
    pub fn with_kernel(&self, row: ProcessRow) -> ProcessRow {
        let Some(image) = self.kernel_image(row.process) else { return row };
        let row = ProcessRow { exit: row.exit.or(image.status.map(exit_code)), ..row };
        if image.peak == 0 {
            return row;
        }
        let (at_peak, footprint) = (&image.at_peak, image.footprint_at_peak);
        let touched = footprint.filter(|_| self.sees_faults());
        ProcessRow {
            peak_resident_bytes: image.peak.saturating_sub(row.probe_bytes),
            resident_peak_ns: Some(self.clock.of_monotonic(image.peak_ns)),
            resident_anon_bytes: Some(at_peak.anon),
            resident_file_bytes: Some(at_peak.file),
            resident_shmem_bytes: Some(at_peak.shmem),
            resident_live_bytes: footprint.map(|footprint| footprint.live),
            resident_untouched_bytes: touched.map(|footprint| footprint.untouched),
            resident_mapped_bytes: footprint.map(|footprint| footprint.mapped),
            page_faults: (image.faults > 0).then_some(image.faults),
            ..row
        }
    }

    /// Writes every table but `allocations` anew. Unless it is the `last` time, live blocks and
    /// `meta` too: a trace whose tracer is killed has recent ones.
    pub fn write_tables(&mut self, processes: &[ProcessRow], meta: &Meta, last: bool) {
        let opened = self.sites.opened().cloned();
        let modules: Vec<ModuleRow> = self.images.modules().chain(opened).collect();
        let threads: Vec<ThreadRow> = self.threads.iter().cloned().collect();
        let devices_peak = self.totals.devices().is_some_and(|devices| devices.used().is_at_peak());
        let (sites, frames) = (self.sites.rows(devices_peak), self.sites.frames());
        let folded = self.rows.summed_rows(&self.sites);
        let devices = self.device_rows();
        let live = if last { Vec::new() } else { self.live_set() };
        let Fold { clock, sites: ids, spans, rows, .. } = self;
        rows.write(|out| out.spans(spans.rows(|stamp| clock.ns(stamp), |site| ids.id(site))));
        rows.write(|out| {
            out.processes(processes)?;
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
            out.meta(meta)
        });
    }

    /// Writes what a process has now, and this many resident bytes.
    pub fn write_sample(&mut self, index: u32, stamp: u64, resident: Option<u64>) {
        let process = &self.processes[index];
        let row = TimelineRow {
            process: index,
            time_ns: self.clock.ns(stamp),
            reason: "sample".into(),
            live_bytes: process.live(),
            heap_bytes: process.heap.bytes(),
            mapped_bytes: process.mappings.mapped_bytes(),
            resident_bytes: resident,
            pages: self.kernel_image(index).map(|image| kernel::pages(&image.now)),
            device_bytes: process.devices.as_ref().map(|devices| devices.driver()),
        };
        self.rows.timeline(row);
    }

    /// Writes what a process had at its peak.
    pub fn write_peak(&mut self, index: u32) {
        let process = &self.processes[index];
        let at_peak = &process.at_peak;
        let row = TimelineRow {
            process: index,
            time_ns: self.clock.ns(at_peak.stamp),
            reason: "peak".into(),
            live_bytes: process.row.peak_live_bytes,
            heap_bytes: at_peak.heap,
            mapped_bytes: at_peak.mapped,
            resident_bytes: None,
            pages: None,
            device_bytes: at_peak.device,
        };
        self.rows.timeline(row);
    }

    /// Why writing has failed.
    pub fn take_failure(&mut self) -> Option<memtrace_trace::Error> {
        self.rows.take_failure()
    }

    /// The writer of the trace, to be closed, and the call stacks, to be named.
    pub fn into_parts(self) -> (TraceWriter, Sites) {
        (self.rows.into_writer(), self.sites)
    }
}
