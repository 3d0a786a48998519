//! Memory of devices: what the CUDA probe and frameworks tell, as rows, peaks of spans, and sums over all processes.

use memtrace_trace::rows::{AllocationRow, DeviceRow, Kind, ProcessRow};
use memtrace_wire::device::{DeviceRecord, Memory, NO_DEVICE};
use memtrace_wire::event::{Event, Kind as Wire};

use super::Fold;
use super::heap::EARLY_NS;
use crate::record::blocks::{Block, Part};
use crate::record::devices::{Change, Devices, Held, Key, Outcome, device_of, kind};

/// A block that a thread has said it would release: its row is written when the thread says what comes next, and it is not
/// that the release has failed.
pub struct Released {
    block: Block,
    row: AllocationRow,
}

/// No host has as many devices.
const DEVICES_MAX: u32 = 1 << 12;
/// No block is as large; sums of so many do not overflow.
const BYTES_MAX: u64 = 1 << 50;

/// What an event of a device says, taken apart.
struct Told {
    index: u32,
    writer: u32,
    memory: Memory,
    key: Key,
    record: DeviceRecord,
    stamp: u64,
}

impl Fold {
    pub(super) fn device(&mut self, writer: u32, event: Event, text: &[u8]) {
        let index = self.threads[writer as usize].process;
        let Some((mut record, rest)) = DeviceRecord::read(text) else { return self.lose_event(index) };
        if record.device >= DEVICES_MAX && record.device != NO_DEVICE {
            return self.lose_event(index);
        }
        for figure in [&mut record.bytes, &mut record.extra, &mut record.most] {
            *figure = (*figure).min(BYTES_MAX);
        }
        if self.processes[index as usize].devices.is_none() {
            self.processes[index as usize].devices = Some(Box::default());
            self.spans.on_devices(index, 0);
            self.total.has_devices = true;
        }
        if event.kind != Wire::DeviceKept {
            self.settle_released(writer);
        }
        let (address, stamp) = (event.address, event.stamp);
        let device = device_of(&record);
        match event.kind {
            Wire::DeviceFound => self.devices(index).found(address as u32, rest, record.bytes),
            Wire::DeviceUnmap => {
                self.change_devices(index, stamp, |devices| devices.unmap(address, record.bytes, stamp))
            }
            Wire::DevicePool => self.change_devices(index, stamp, |devices| devices.look(&record, stamp)),
            Wire::DeviceEnd => {
                self.change_devices(index, stamp, |devices| devices.end(record.context, device, stamp))
            }
            _ => {
                let Some(memory) = Memory::from_code(record.memory as u8) else {
                    return self.lose_event(index);
                };
                let key = Key::of(memory, address, &record);
                let told = Told { index, writer, memory, key, record, stamp };
                match event.kind {
                    Wire::DeviceKept => self.device_kept(&told),
                    Wire::DeviceRelease => self.device_released(&told),
                    Wire::DeviceBlock if record.bytes == 0 => self.device_released(&told),
                    _ => self.device_acquired(&told, &event),
                }
            }
        }
    }

    /// An event that cannot be read is as good as lost.
    fn lose_event(&mut self, index: u32) {
        self.processes[index as usize].row.lost_events += 1;
    }

    /// What a process has of devices; it has something.
    fn devices(&mut self, index: u32) -> &mut Devices {
        self.processes[index as usize].devices.get_or_insert_default()
    }

    fn device_acquired(&mut self, told: &Told, event: &Event) {
        let Told { index, writer, memory, key, record, stamp } = *told;
        if self.devices(index).refers_again(key, memory, record.bytes) {
            return;
        }
        let kind = kind(memory);
        let (span, ordinal) = self.spans.device_block(writer, kind);
        let site = self.sites.on_device(writer, event.stack);
        let bytes = record.bytes;
        let block =
            Block { bytes, alloc: stamp, thread: writer, span, ordinal, kind, site, part: Part::None };
        let held = Held::new(block, memory, &record);
        self.change_devices(index, stamp, |devices| match event.kind {
            Wire::DeviceBlock => devices.hand_out(key, held, record.extra),
            _ => devices.acquire(key, held),
        });
        let patience = self.clock.ticks(EARLY_NS);
        if let Some(releaser) = self.devices(index).early_release(writer, key, stamp, patience) {
            self.device_released(&Told { writer: releaser, ..*told });
        }
    }

    fn device_released(&mut self, told: &Told) {
        let Told { index, writer, key, record, stamp, .. } = *told;
        let (patience, said) = (self.clock.patience(), device_of(&record));
        let outcome = self.fold_devices(index, |devices| devices.release(writer, key, said, stamp, patience));
        // One at most: it is gone unless the driver refuses.
        for (key, held) in outcome.ended {
            let row = self.device_row(index, key, &held, Some(stamp));
            self.settle_released(writer);
            self.released.insert(writer, Released { block: held.block, row });
        }
    }

    fn device_kept(&mut self, told: &Told) {
        let Told { index, writer, key, stamp, .. } = *told;
        let mut restored = false;
        self.change_devices(index, stamp, |devices| {
            let outcome = devices.kept(writer, key, stamp);
            restored = outcome.is_some();
            outcome.unwrap_or_default()
        });
        if restored {
            self.released.remove(&writer);
        }
    }

    /// The last release of the thread has not failed.
    pub(super) fn settle_released(&mut self, writer: u32) {
        if let Some(Released { block, row }) = self.released.remove(&writer) {
            self.write_device_row(&block, row);
        }
    }

    /// Does something to what a process has of devices, and writes the blocks that end by it.
    fn change_devices(&mut self, index: u32, stamp: u64, change: impl FnOnce(&mut Devices) -> Outcome) {
        for (key, held) in self.fold_devices(index, change).ended {
            let row = self.device_row(index, key, &held, Some(stamp));
            self.write_device_row(&held.block, row);
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
        if self.processes[index as usize].parted.is_none() {
            let total = &mut self.total;
            [high as i64 - before as i64, after as i64 - high as i64]
                .into_iter()
                .for_each(|bytes| total.device_driver.change(bytes));
            for change in &outcome.used {
                if total.device_used.change(*change) {
                    self.sites.new_device_peak();
                }
                self.sites.change_on_devices(change.site, change.bytes);
            }
        }
        outcome
    }

    /// What a process has of devices no longer counts for all together.
    pub(super) fn part_devices(&mut self, index: u32) {
        if let Some(devices) = &self.processes[index as usize].devices {
            self.total.device_driver.change(-(devices.driver() as i64));
            if self.total.device_used.change(Change::of_all(-devices.used())) {
                self.sites.new_device_peak();
            }
            for (_, held) in devices.iter() {
                self.sites.change_on_devices(held.block.site, -(held.used_bytes() as i64));
            }
        }
    }

    /// The process has ended: its blocks become rows without a release.
    pub(super) fn end_devices(&mut self, index: u32) {
        let threads: Vec<u32> =
            self.released.iter().filter(|(_, last)| last.row.process == index).map(|(t, _)| *t).collect();
        threads.into_iter().for_each(|thread| self.settle_released(thread));
        let held = self.processes[index as usize].devices.as_mut().map(|devices| devices.end_all());
        for (key, held) in held.into_iter().flatten() {
            let row = self.device_row(index, key, &held, None);
            self.write_device_row(&held.block, row);
        }
    }

    pub(super) fn device_row(&self, index: u32, key: Key, held: &Held, free: Option<u64>) -> AllocationRow {
        let row = self.row(index, key.address, &held.block, free, false);
        let is_handle = matches!(row.kind, Kind::CudaPhysical | Kind::CudaImportedPhysical);
        AllocationRow { address: row.address.filter(|_| !is_handle), device: held.device, ..row }
    }

    fn write_device_row(&mut self, block: &Block, row: AllocationRow) {
        if self.folded.takes(block) {
            return self.folded.add(block, row.free_ns.map(|free| free - row.alloc_ns));
        }
        self.write(|out| out.allocation(row));
    }

    /// The rows of `devices`.
    pub fn device_rows(&self) -> Vec<DeviceRow> {
        let rows = self.processes.iter().filter_map(|process| {
            Some(process.devices.as_ref()?.rows(process.row.process, |stamp| self.clock.ns(stamp)))
        });
        rows.flatten().collect()
    }

    /// The process's row with the releases that met nothing of devices.
    pub fn with_devices(&self, row: ProcessRow) -> ProcessRow {
        let devices = self.processes[row.process as usize].devices.as_ref();
        let unseen = devices.map_or(0, |devices| devices.unseen());
        let (inherited, unseen) = if row.origin == "fork" { (unseen, 0) } else { (0, unseen) };
        ProcessRow {
            inherited_releases: row.inherited_releases + inherited,
            unseen_releases: row.unseen_releases + unseen,
            ..row
        }
    }
}
