//! A small process with devices, and what must hold of it.

mod blocks;
mod frameworks;
mod model;
mod pools;

use memtrace_trace::rows::DeviceRow;

use super::*;

const MIB: u64 = 1 << 20;
/// Ticks after which a pending release is given up.
const PATIENCE: u64 = 1000;

/// A process that does one thing after the other.
#[derive(Default)]
struct Process {
    devices: Devices,
    now: u64,
}

impl Process {
    fn record(memory: Memory, bytes: u64, owner: u64) -> DeviceRecord {
        let context = if matches!(memory, Memory::Linear | Memory::Array | Memory::Host) { 1 } else { 0 };
        let device = if memory == Memory::Host { NO_DEVICE } else { 0 };
        DeviceRecord { memory: memory as u32, device, context, owner, bytes, extra: 0, most: 0 }
    }

    fn block(&mut self, memory: Memory, bytes: u64) -> Block {
        self.now += 1;
        let (kind, part) = (kind(memory), Part::None);
        Block { bytes, alloc: self.now, thread: 0, span: Some(7), ordinal: 0, kind, site: None, part }
    }

    fn acquire(&mut self, memory: Memory, address: u64, bytes: u64, owner: u64) -> Outcome {
        let record = Process::record(memory, bytes, owner);
        let key = Key::of(memory, address, &record);
        let live = DeviceBlock::new(self.block(memory, bytes), memory, &record);
        if self.devices.refers_again(key, memory, bytes) {
            return Outcome::default();
        }
        match key.class {
            Class::Framework => self.devices.suballocate(key, live, 0),
            _ => self.devices.acquire(key, live),
        }
    }

    fn alloc(&mut self, address: u64, bytes: u64) -> Outcome {
        self.acquire(Memory::Linear, address, bytes, 0)
    }

    fn torch(&mut self, address: u64, bytes: u64) -> Outcome {
        self.acquire(Memory::TorchBlock, address, bytes, 0)
    }

    fn release(&mut self, memory: Memory, address: u64, owner: u64) -> Outcome {
        self.now += 1;
        let key = Key::of(memory, address, &Process::record(memory, 0, owner));
        self.devices.release(0, key, None, self.now, PATIENCE)
    }

    fn free(&mut self, address: u64) -> Outcome {
        self.release(Memory::Linear, address, 0)
    }

    fn release_failed(&mut self, memory: Memory, address: u64, owner: u64) -> Option<Outcome> {
        let key = Key::of(memory, address, &Process::record(memory, 0, owner));
        self.devices.release_failed(0, key, self.now)
    }

    fn pool_reported(&mut self, memory: Memory, owner: u64, [reserved, used, most]: [u64; 3]) -> Outcome {
        let record = DeviceRecord { extra: used, most, ..Process::record(memory, reserved, owner) };
        self.devices.pool_reported(&record, self.now)
    }

    fn row(&self) -> DeviceRow {
        let rows = self.devices.rows(3, |stamp| stamp as i64);
        rows.into_iter().find(|row| row.device == Some(0)).unwrap_or_default()
    }

    /// Driver bytes and used bytes.
    fn now(&self) -> (u64, i64) {
        (self.devices.driver(), self.devices.used())
    }
}
