//! Blocks come and go, and with them what they count for.

use memtrace_wire::device::Memory;

use super::account::{Account, Change};
use super::kinds::{Class, Counts, Key, is_referred_to};
use super::pools::{Pool, PoolKey};
use super::{Devices, Held, Outcome};

/// What a range is mapped to.
fn physical(range: &Held) -> Key {
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
    pub(super) fn add(&mut self, key: Key, held: Held, out: &mut Outcome) {
        if self.remove(key, out) && key.class == Class::Framework {
            self.late.owe(key, held.block.alloc);
        }
        if held.memory == Memory::Graph {
            self.promised.insert(key)
        } else {
            self.promised.remove(&key)
        };
        let account = self.account(held.device);
        account.allocations += 1;
        account.requested = account.requested.saturating_add(held.block.bytes);
        if held.memory == Memory::ImportedPool {
            self.change_pool(PoolKey::Handle(held.owner), held.device, out, Pool::import);
        }
        self.put(key, held, out);
    }

    /// A block is there (again).
    pub(super) fn put(&mut self, key: Key, held: Held, out: &mut Outcome) {
        match held.memory {
            Memory::Mapped => self.references.entry(physical(&held)).or_default().ranges += 1,
            memory if is_referred_to(memory) => self.references.entry(key).or_default().handles += 1,
            _ => {}
        }
        self.count(&held, 1, out);
        self.held.insert(key, held);
    }

    /// A block is gone; false if there was none.
    pub(super) fn remove(&mut self, key: Key, out: &mut Outcome) -> bool {
        let Some(held) = self.held.remove(&key) else { return false };
        self.count(&held, -1, out);
        out.ended.push((key, held));
        match held.memory {
            Memory::Mapped => {
                let references = self.references.entry(physical(&held)).or_default();
                references.ranges = references.ranges.saturating_sub(1);
                self.end_unreferred(physical(&held), out);
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
        let Some(held) = self.held.get(&key).filter(|_| key.class == Class::Device) else { return };
        let inside = |address| Key { class: Class::Framework, address };
        let blocks = self.held.range(inside(key.address)..inside(held.end(key.address)));
        for key in blocks.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.remove(key, out);
        }
    }

    /// A framework hands out a part of the device's memory: what it lies in is not used as a whole from now on. False if
    /// that is none of the device's own memory.
    pub(super) fn carve(&mut self, start: u64, end: u64, out: &mut Outcome) -> bool {
        let key = |address| Key { class: Class::Device, address };
        let before = self.held.range(key(0)..key(end)).rev();
        let around = before.take_while(|(key, held)| held.end(key.address) > start);
        let around = around.map(|(key, held)| match held.memory {
            Memory::Mapped => physical(held),
            _ => *key,
        });
        let mut is_own = true;
        for key in around.collect::<Vec<_>>() {
            let Some(held) = self.held.get_mut(&key) else { continue };
            is_own &= held.counts().is_used();
            if std::mem::take(&mut held.used) {
                let (device, change) = (held.device, Change::of(held, -(held.block.bytes as i64)));
                self.change_used(device, Change { carved: true, ..change }, out);
            }
        }
        is_own
    }

    fn count(&mut self, held: &Held, sign: i64, out: &mut Outcome) {
        let bytes = sign * held.block.bytes as i64;
        match held.counts() {
            Counts::Driver => {
                let now = self.now;
                self.account(held.device).change_driver(bytes, now);
                self.shift_driver(bytes, out);
            }
            Counts::Pool => {
                self.change_pool(PoolKey::Handle(held.owner), held.device, out, |pool| pool.change(bytes));
            }
            other => self.account(held.device).change_other(other, bytes),
        }
        if held.used {
            self.change_used(held.device, Change::of(held, bytes), out);
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
