//! Blocks come and go, and with them what they count for.

use memtrace_wire::device::Memory;

use super::account::{Account, Change};
use super::kinds::{Class, Counts, Key, is_referred_to};
use super::pools::{Pool, PoolKey};
use super::{DeviceBlock, Devices, Outcome};

/// What a range is mapped to.
fn physical(range: &DeviceBlock) -> Key {
    Key { class: Class::Physical, address: range.owner }
}

impl Devices {
    /// An event is taken in.
    pub(super) fn begin(&mut self, stamp: u64) -> Outcome {
        self.now = stamp;
        Outcome { high: self.driver.now, ..Outcome::default() }
    }

    pub(super) fn account(&mut self, device: Option<u32>) -> &mut Account {
        self.accounts.entry(device).or_default()
    }

    /// A new block. What is still at its place is gone.
    pub(super) fn add(&mut self, key: Key, live: DeviceBlock, out: &mut Outcome) {
        if self.remove(key, out) && key.class == Class::Framework {
            self.late.expect_release(key, live.block.alloc);
        }
        if live.memory == Memory::Graph {
            self.promised.insert(key)
        } else {
            self.promised.remove(&key)
        };
        let account = self.account(live.device);
        account.allocations += 1;
        account.requested = account.requested.saturating_add(live.block.bytes);
        if live.memory == Memory::ImportedPool {
            self.change_pool(PoolKey::Handle(live.owner), live.device, out, Pool::import);
        }
        self.put(key, live, out);
    }

    /// A block is there (again).
    pub(super) fn put(&mut self, key: Key, live: DeviceBlock, out: &mut Outcome) {
        match live.memory {
            Memory::Mapped => self.references.entry(physical(&live)).or_default().ranges += 1,
            memory if is_referred_to(memory) => self.references.entry(key).or_default().handles += 1,
            _ => {}
        }
        self.count(&live, 1, out);
        self.blocks.insert(key, live);
    }

    /// A block is gone; false if there was none.
    pub(super) fn remove(&mut self, key: Key, out: &mut Outcome) -> bool {
        let Some(live) = self.blocks.remove(&key) else { return false };
        self.count(&live, -1, out);
        out.ended.push((key, live));
        match live.memory {
            Memory::Mapped => {
                let references = self.references.entry(physical(&live)).or_default();
                references.ranges = references.ranges.saturating_sub(1);
                self.end_unreferred(physical(&live), out);
            }
            memory if is_referred_to(memory) => drop(self.references.remove(&key)),
            _ => {}
        }
        true
    }

    /// A reference is released; false if there is none.
    pub(super) fn drop_reference(&mut self, key: Key, out: &mut Outcome) -> bool {
        let references = self.references.get_mut(&key).filter(|references| references.handles > 0);
        let Some(references) = references else { return false };
        references.handles -= 1;
        self.end_unreferred(key, out);
        true
    }

    /// Physical memory is there until its last handle is released and its last range unmapped.
    fn end_unreferred(&mut self, key: Key, out: &mut Outcome) {
        if self.references.get(&key).is_some_and(|left| left.handles == 0 && left.ranges == 0) {
            self.references.remove(&key);
            self.remove(key, out);
        }
    }

    /// A pool is destroyed: what it was.
    pub(super) fn destroy(&mut self, handle: u64, out: &mut Outcome) -> Option<Pool> {
        let pool = *self.pools.get(&PoolKey::Handle(handle))?;
        self.change_pool(PoolKey::Handle(handle), pool.device, out, Pool::destroy);
        Some(pool)
    }

    /// All pools of a device are gone.
    pub(super) fn remove_pools(&mut self, device: Option<u32>, out: &mut Outcome) {
        let mut gone = 0;
        self.pools.retain(|_, pool| {
            gone += if pool.device == device { pool.driver() } else { 0 };
            pool.device != device
        });
        self.change_pools(device, -(gone as i64), out);
        let bytes = -(self.graphs.remove(&device).unwrap_or(0) as i64);
        self.change_used(device, Change::of_all(bytes), out);
    }

    /// Blocks of frameworks go with the memory they lie in.
    pub(super) fn remove_inside(&mut self, key: Key, out: &mut Outcome) {
        let Some(live) = self.blocks.get(&key).filter(|_| key.class == Class::Device) else { return };
        let inside = |address| Key { class: Class::Framework, address };
        let blocks = self.blocks.range(inside(key.address)..inside(live.end(key.address)));
        for key in blocks.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.remove(key, out);
        }
    }

    /// A framework suballocates a part of the device's memory: what it lies in is not used as a
    /// whole from now on. False if that is none of the device's own memory.
    pub(super) fn carve(&mut self, start: u64, end: u64, out: &mut Outcome) -> bool {
        let key = |address| Key { class: Class::Device, address };
        let before = self.blocks.range(key(0)..key(end)).rev();
        let around = before.take_while(|(key, live)| live.end(key.address) > start);
        let around = around.map(|(key, live)| match live.memory {
            Memory::Mapped => physical(live),
            _ => *key,
        });
        let mut is_own = true;
        for key in around.collect::<Vec<_>>() {
            let Some(live) = self.blocks.get_mut(&key) else { continue };
            is_own &= live.counts().is_used();
            if std::mem::take(&mut live.used) {
                let (device, change) = (live.device, Change::of(live, -(live.block.bytes as i64)));
                self.change_used(device, Change { carved: true, ..change }, out);
            }
        }
        is_own
    }

    fn count(&mut self, live: &DeviceBlock, sign: i64, out: &mut Outcome) {
        let bytes = sign * live.block.bytes as i64;
        match live.counts() {
            Counts::Driver => {
                let now = self.now;
                self.account(live.device).change_driver(bytes, now);
                self.shift_driver(bytes, out);
            }
            Counts::Pool => {
                self.change_pool(PoolKey::Handle(live.owner), live.device, out, |pool| pool.change(bytes));
            }
            other => self.account(live.device).change_other(other, bytes),
        }
        if live.used {
            self.change_used(live.device, Change::of(live, bytes), out);
        }
    }

    /// Does something to a pool, which is on this device if it is new.
    pub(super) fn change_pool(
        &mut self,
        key: PoolKey,
        device: Option<u32>,
        out: &mut Outcome,
        change: impl FnOnce(&mut Pool),
    ) {
        let pool = self.pools.entry(key).or_insert_with(|| Pool::on(device));
        pool.device = pool.device.or(device);
        let before = pool.driver();
        change(pool);
        let (device, bytes) = (pool.device, pool.driver() as i64 - before as i64);
        if pool.is_gone() {
            self.pools.remove(&key);
        }
        self.change_pools(device, bytes, out);
    }

    fn change_pools(&mut self, device: Option<u32>, bytes: i64, out: &mut Outcome) {
        if bytes != 0 {
            let now = self.now;
            self.account(device).change_pools(bytes, now);
            self.shift_driver(bytes, out);
        }
    }

    fn shift_driver(&mut self, bytes: i64, out: &mut Outcome) {
        self.driver.change(bytes);
        out.high = out.high.max(self.driver.now);
    }

    pub(super) fn change_used(&mut self, device: Option<u32>, change: Change, out: &mut Outcome) {
        if change.bytes != 0 {
            self.account(device).change_used(change);
            self.used += change.bytes;
            out.used.push(change);
        }
    }
}
