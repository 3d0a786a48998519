//! Memory of devices: what the CUDA probe and frameworks report, as rows, peaks of spans, and sums
//! over all processes.

use memtrace_trace::rows::{AllocationRow, DeviceRow, Kind, ProcessRow};
use memtrace_wire::device::{DeviceRecord, Memory, NO_DEVICE};
use memtrace_wire::event::{Event, Kind as Wire};

use super::Fold;
use super::heap::EARLY_NS;
use crate::record::state::blocks::{Block, Part};
use crate::record::state::devices::{Change, DeviceBlock, Devices, Key, Outcome, device_of, kind};

/// The row of a block whose release a thread has reported: it is written with the thread's next
/// report, unless that is that the release has failed.
pub struct PendingRow {
    block: Block,
    row: AllocationRow,
}

/// No host has as many devices.
const DEVICES_MAX: u32 = 1 << 12;
/// No block is as large; sums of these do not overflow.
const BYTES_MAX: u64 = 1 << 50;

/// What an event is about.
struct Report {
    index: u32,
    writer: u32,
    memory: Memory,
    key: Key,
    record: DeviceRecord,
    stamp: u64,
}

impl Fold {
    pub(super) fn device(&mut self, writer: u32, event: Event, text: &[u8]) {
        let index = self.threads[writer].process;
        let Some((mut record, rest)) = DeviceRecord::read(text) else { return self.lose_event(index) };
        if record.device >= DEVICES_MAX && record.device != NO_DEVICE {
            return self.lose_event(index);
        }
        for figure in [&mut record.bytes, &mut record.extra, &mut record.most] {
            *figure = (*figure).min(BYTES_MAX);
        }
        if self.processes[index].devices.is_none() {
            self.processes[index].devices = Some(Box::default());
            self.spans.on_devices(index, 0);
            self.totals.devices_mut();
        }
        if event.kind != Wire::DeviceReleaseFailed {
            self.settle_device_release(writer);
        }
        let (address, stamp) = (event.address, event.stamp);
        let device = device_of(&record);
        match event.kind {
            Wire::DeviceFound => self.devices(index).found(address as u32, rest, record.bytes),
            Wire::DeviceUnmap => {
                self.change_devices(index, stamp, |devices| devices.unmap(address, record.bytes, stamp))
            }
            Wire::DevicePool => {
                self.change_devices(index, stamp, |devices| devices.pool_reported(&record, stamp))
            }
            Wire::DeviceEnd => {
                self.change_devices(index, stamp, |devices| devices.end(record.context, device, stamp))
            }
            _ => {
                let Some(memory) = Memory::from_code(record.memory as u8) else {
                    return self.lose_event(index);
                };
                let key = Key::of(memory, address, &record);
                let report = Report { index, writer, memory, key, record, stamp };
                match event.kind {
                    Wire::DeviceReleaseFailed => self.device_release_failed(&report),
                    Wire::DeviceRelease => self.device_released(&report),
                    Wire::DeviceBlock if record.bytes == 0 => self.device_released(&report),
                    _ => self.device_acquired(&report, &event),
                }
            }
        }
    }

    /// An event that cannot be read is as good as lost.
    fn lose_event(&mut self, index: u32) {
        self.processes[index].row.lost_events += 1;
    }

    /// What a process has of devices; it has something.
    fn devices(&mut self, index: u32) -> &mut Devices {
        self.processes[index].devices.get_or_insert_default()
    }

    fn device_acquired(&mut self, report: &Report, event: &Event) {
        let Report { index, writer, memory, key, record, stamp } = *report;
        if self.devices(index).refers_again(key, memory, record.bytes) {
            return;
        }
        let kind = kind(memory);
        let (span, ordinal) = self.spans.device_block(writer, kind);
        let site = self.sites.on_device(writer, event.stack);
        let bytes = record.bytes;
        let block =
            Block { bytes, alloc: stamp, thread: writer, span, ordinal, kind, site, part: Part::None };
        let block = DeviceBlock::new(block, memory, &record);
        self.change_devices(index, stamp, |devices| match event.kind {
            Wire::DeviceBlock => devices.suballocate(key, block, record.extra),
            _ => devices.acquire(key, block),
        });
        let patience = self.clock.ticks(EARLY_NS);
        if let Some(releaser) = self.devices(index).early_release(writer, key, stamp, patience) {
            self.device_released(&Report { writer: releaser, ..*report });
        }
    }

    fn device_released(&mut self, report: &Report) {
        let Report { index, writer, key, record, stamp, .. } = *report;
        let (patience, on) = (self.clock.patience(), device_of(&record));
        let outcome = self.fold_devices(index, |devices| devices.release(writer, key, on, stamp, patience));
        // One at most: it is gone unless the driver refuses.
        for (key, ended) in outcome.ended {
            let row = self.device_row(index, key, &ended, Some(stamp));
            self.settle_device_release(writer);
            self.pending_rows.insert(writer, PendingRow { block: ended.block, row });
        }
    }

    fn device_release_failed(&mut self, report: &Report) {
        let Report { index, writer, key, stamp, .. } = *report;
        let mut restored = false;
        self.change_devices(index, stamp, |devices| {
            let outcome = devices.release_failed(writer, key, stamp);
            restored = outcome.is_some();
            outcome.unwrap_or_default()
        });
        if restored {
            self.pending_rows.remove(&writer);
        }
    }

    /// The last release of the thread has not failed.
    pub(super) fn settle_device_release(&mut self, writer: u32) {
        if let Some(PendingRow { block, row }) = self.pending_rows.remove(&writer) {
            self.write_device_row(&block, row);
        }
    }

    /// Does something to what a process has of devices, and writes the blocks that end by it.
    fn change_devices(&mut self, index: u32, stamp: u64, change: impl FnOnce(&mut Devices) -> Outcome) {
        for (key, ended) in self.fold_devices(index, change).ended {
            let row = self.device_row(index, key, &ended, Some(stamp));
            self.write_device_row(&ended.block, row);
        }
    }

    /// Does something to what a process has of devices, and keeps the sums.
    fn fold_devices(&mut self, index: u32, change: impl FnOnce(&mut Devices) -> Outcome) -> Outcome {
        let devices = self.devices(index);
        let before = devices.driver();
        let outcome = change(devices);
        let after = devices.driver();
        let high = outcome.high.max(after).max(before);
        if high > before {
            self.spans.on_devices(index, high);
        }
        outcome.used.iter().for_each(|change| self.spans.device_changed(*change));
        if self.processes[index].parted.is_none() {
            let totals = self.totals.devices_mut();
            totals.change_driver(high as i64 - before as i64);
            totals.change_driver(after as i64 - high as i64);
            for change in &outcome.used {
                if totals.change_used(*change) {
                    self.sites.accounts_mut().new_device_peak();
                }
                self.sites.accounts_mut().change_on_devices(change.site, change.bytes);
            }
        }
        outcome
    }

    /// What a process has of devices no longer counts for all together.
    pub(super) fn part_devices(&mut self, index: u32) {
        if let Some(devices) = &self.processes[index].devices {
            let totals = self.totals.devices_mut();
            totals.change_driver(-(devices.driver() as i64));
            if totals.change_used(Change::of_all(-devices.used())) {
                self.sites.accounts_mut().new_device_peak();
            }
            for (_, live) in devices.iter() {
                self.sites.accounts_mut().change_on_devices(live.block.site, -(live.used_bytes() as i64));
            }
        }
    }

    /// The process has ended: its blocks become rows without a release.
    pub(super) fn end_devices(&mut self, index: u32) {
        let threads: Vec<u32> =
            self.pending_rows.iter().filter(|(_, last)| last.row.process == index).map(|(t, _)| *t).collect();
        threads.into_iter().for_each(|thread| self.settle_device_release(thread));
        let left = self.processes[index].devices.as_mut().map(|devices| devices.end_all());
        for (key, live) in left.into_iter().flatten() {
            let row = self.device_row(index, key, &live, None);
            self.write_device_row(&live.block, row);
        }
    }

    pub(super) fn device_row(
        &self,
        index: u32,
        key: Key,
        live: &DeviceBlock,
        free: Option<u64>,
    ) -> AllocationRow {
        let row = self.row(index, key.address, &live.block, free, false);
        let is_handle = matches!(row.kind, Kind::CudaPhysical | Kind::CudaImportedPhysical);
        AllocationRow { address: row.address.filter(|_| !is_handle), device: live.device, ..row }
    }

    fn write_device_row(&mut self, block: &Block, row: AllocationRow) {
        if self.rows.is_summed(block) {
            return self.rows.add(block, row.free_ns.map(|free| free - row.alloc_ns));
        }
        self.rows.allocation(row);
    }

    /// The rows of `devices`.
    pub fn device_rows(&self) -> Vec<DeviceRow> {
        let rows = self.processes.iter().filter_map(|process| {
            Some(process.devices.as_ref()?.rows(process.row.process, |stamp| self.clock.ns(stamp)))
        });
        rows.flatten().collect()
    }

    /// The process's row with the releases that matched no block of a device.
    pub fn with_devices(&self, row: ProcessRow) -> ProcessRow {
        let devices = self.processes[row.process].devices.as_ref();
        let unseen = devices.map_or(0, |devices| devices.unseen());
        let (inherited, unseen) = if row.origin == "fork" { (unseen, 0) } else { (0, unseen) };
        ProcessRow {
            inherited_releases: row.inherited_releases + inherited,
            unseen_releases: row.unseen_releases + unseen,
            ..row
        }
    }
}
