//! What one process has of devices: blocks by address, and what they add up to.
//!
//! A release is reported before the driver's call, and undone if that fails
//! ([`Devices::release_failed`]). So what is still at the address of a new block has ended
//! unreported (with its context, or unseen), and no release of it is pending. Blocks of frameworks
//! are reported once they were released, perhaps after the next one at their address: for these,
//! acquires and releases alternate as on the heap ([`late`](super::late)).
//!
//! Two sums are separate. **Driver bytes** are what the driver has reserved on a device: memory
//! that was allocated, and what pools have reserved. **Used bytes** are what the program requested
//! of that: blocks of pools instead of their reserves; and where a framework suballocates blocks,
//! these instead of the memory they lie in.

mod account;
mod kinds;
mod pools;
mod sums;

use std::collections::BTreeMap;

use memtrace_trace::rows::DeviceRow;
use memtrace_wire::device::{DeviceRecord, Memory, NO_DEVICE};
use rustc_hash::{FxHashMap, FxHashSet};

use self::account::Account;
pub use self::account::{Change, Sum, Used};
use self::kinds::Counts;
use self::kinds::is_referred_to;
pub use self::kinds::{Class, Key, kind};
use self::pools::{Pool, PoolKey};
use super::blocks::{Block, Part};
use super::late::Late;

/// A live block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceBlock {
    /// Size, times, and the thread that allocated it.
    pub block: Block,
    /// What kind of memory it is.
    pub memory: Memory,
    /// The device it is on.
    pub device: Option<u32>,
    /// The context it ends with; 0 if it outlives contexts.
    context: u64,
    /// Its pool, or the physical memory that it is a mapping of.
    owner: u64,
    /// It is among used bytes.
    used: bool,
}

impl DeviceBlock {
    /// As an event describes it.
    pub fn new(block: Block, memory: Memory, record: &DeviceRecord) -> DeviceBlock {
        let (device, used) = (device_of(record), Counts::of(memory, device_of(record)).is_used());
        DeviceBlock { block, memory, device, context: record.context, owner: record.owner, used }
    }

    /// True for a block that a framework has suballocated.
    pub fn is_framework(&self) -> bool {
        self.counts() == Counts::Framework
    }

    /// Used bytes that it accounts for.
    pub fn used_bytes(&self) -> u64 {
        if self.used { self.block.bytes } else { 0 }
    }

    fn counts(&self) -> Counts {
        Counts::of(self.memory, self.device)
    }

    fn end(&self, start: u64) -> u64 {
        start.saturating_add(self.block.bytes)
    }
}

/// The device that an event is about.
pub fn device_of(record: &DeviceRecord) -> Option<u32> {
    (record.device != NO_DEVICE).then_some(record.device)
}

/// What an event has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Blocks that have come to their end.
    pub ended: Vec<(Key, DeviceBlock)>,
    /// How used bytes have changed, in order.
    pub used: Vec<Change>,
    /// Most driver bytes of all devices meanwhile.
    pub high: u64,
}

/// How often memory is referred to.
#[derive(Debug, Clone, Copy, Default)]
struct References {
    handles: u32,
    ranges: u32,
}

/// What there is to restore if a release has failed.
#[derive(Debug)]
enum Undo {
    Block(Box<DeviceBlock>),
    Reference,
    Pool(Pool),
    /// It matched no block, and was counted for this device.
    Unknown(Option<u32>),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Devices {
    blocks: BTreeMap<Key, DeviceBlock>,
    /// To memory that can be acquired more than once.
    references: FxHashMap<Key, References>,
    /// Addresses that are backed whenever a graph runs, and released as often.
    promised: FxHashSet<Key>,
    pools: FxHashMap<PoolKey, Pool>,
    /// What graphs use, by device, as the driver reports.
    graphs: FxHashMap<Option<u32>, u64>,
    accounts: BTreeMap<Option<u32>, Account>,
    /// Driver bytes of all devices.
    driver: Sum,
    /// Used bytes of all devices.
    used: i64,
    late: Late<Key>,
    /// Releases that were pending and never came.
    missing: u64,
    /// By thread: what it released last.
    undo: FxHashMap<u32, (Key, Undo)>,
    /// Stamp of the event that is being taken in.
    now: u64,
}

impl Devices {
    /// Driver bytes of all devices.
    pub fn driver(&self) -> u64 {
        self.driver.now
    }

    /// Their peak.
    pub fn driver_peak(&self) -> u64 {
        self.driver.peak
    }

    /// Used bytes of all devices.
    pub fn used(&self) -> i64 {
        self.used
    }

    /// Releases of blocks that were not known.
    pub fn unseen(&self) -> u64 {
        self.accounts.values().map(|account| account.unseen).sum::<u64>() + self.missing
    }

    /// The rows of its devices.
    pub fn rows(&self, process: u32, ns: impl Fn(u64) -> i64) -> Vec<DeviceRow> {
        let known = self.accounts.iter().filter(|(_, account)| !account.is_empty());
        known.map(|(device, account)| account.row(process, *device, &ns)).collect()
    }

    /// A device was found.
    pub fn found(&mut self, device: u32, name: &[u8], bytes: u64) {
        let name = String::from_utf8_lossy(name).into_owned();
        self.account(Some(device)).about = Some((name, bytes));
    }

    /// True if an acquire is one more reference to memory that is there. Other bytes are those of
    /// other memory, which has the handle now.
    pub fn refers_again(&mut self, key: Key, memory: Memory, bytes: u64) -> bool {
        let known =
            self.blocks.get(&key).filter(|known| is_referred_to(memory) && is_referred_to(known.memory));
        let again = known.is_some_and(|known| bytes == 0 || bytes == known.block.bytes);
        if again {
            self.references.entry(key).or_default().handles += 1;
        }
        again
    }

    /// A block was acquired.
    pub fn acquire(&mut self, key: Key, live: DeviceBlock) -> Outcome {
        let mut out = self.begin(live.block.alloc);
        self.add(key, live, &mut out);
        out
    }

    /// A framework that has this much reserved has suballocated a block: what that lies in is no
    /// longer used as a whole.
    pub fn suballocate(&mut self, key: Key, mut live: DeviceBlock, reserved: u64) -> Outcome {
        let mut out = self.begin(live.block.alloc);
        self.account(live.device).framework_reserved(reserved);
        live.used = self.carve(key.address, live.end(key.address), &mut out);
        self.add(key, live, &mut out);
        out
    }

    /// A thread reports that it is about to release a block, on this device if it is not known.
    /// Releases that are pending for more than `patience` ticks are not settled by that.
    pub fn release(
        &mut self,
        thread: u32,
        key: Key,
        reported: Option<u32>,
        stamp: u64,
        patience: u64,
    ) -> Outcome {
        let mut out = self.begin(stamp);
        self.undo.remove(&thread);
        let undo = if key.class == Class::Pool {
            self.destroy(key.address, &mut out).map(Undo::Pool)
        } else if self.late.settle(key, stamp, patience, &mut self.missing) {
            None
        } else if self.drop_reference(key, &mut out) {
            Some(Undo::Reference)
        } else if key.class != Class::Physical && self.remove(key, &mut out) || self.promised.contains(&key) {
            None
        } else {
            self.account(reported).unseen += 1;
            self.late.note_unmatched(key, stamp, thread, None);
            Some(Undo::Unknown(reported))
        };
        let ended = out.ended.last().map(|(_, live)| Undo::Block(Box::new(*live)));
        self.undo.extend(ended.or(undo).map(|undo| (thread, (key, undo))));
        out
    }

    /// The last release of this thread has failed, if it was of this. `None` if there is nothing to
    /// restore.
    pub fn release_failed(&mut self, thread: u32, key: Key, stamp: u64) -> Option<Outcome> {
        let (_, undo) = self.undo.remove(&thread).filter(|(released, _)| *released == key)?;
        let mut out = self.begin(stamp);
        match undo {
            // This address was acquired again: it was released after all.
            Undo::Block(_) if self.blocks.contains_key(&key) => return None,
            Undo::Block(live) => self.put(key, *live, &mut out),
            Undo::Reference => self.references.entry(key).or_default().handles += 1,
            Undo::Pool(pool) => {
                self.change_pool(PoolKey::Handle(key.address), pool.device, &mut out, |now| *now = pool);
            }
            Undo::Unknown(reported) => {
                self.account(reported).unseen -= 1;
                self.late.forget_early(thread, key);
            }
        }
        Some(out)
    }

    /// The thread whose release of this block matched nothing because it is stamped before the
    /// acquire.
    pub fn early_release(&mut self, thread: u32, key: Key, stamp: u64, patience: u64) -> Option<u32> {
        let releaser =
            self.late.has_early().then(|| self.late.take_early(thread, key, stamp, patience))??;
        if let Some((_, Undo::Unknown(reported))) = self.undo.remove(&releaser) {
            self.account(reported).unseen -= 1;
        }
        Some(releaser)
    }

    /// Ranges were unmapped.
    pub fn unmap(&mut self, start: u64, bytes: u64, stamp: u64) -> Outcome {
        let mut out = self.begin(stamp);
        let key = |address| Key { class: Class::Device, address };
        let ranges = self.blocks.range(key(start)..key(start.saturating_add(bytes)));
        let ranges = ranges.filter(|(_, live)| live.memory == Memory::Mapped).map(|(key, _)| *key);
        for key in ranges.collect::<Vec<_>>() {
            self.remove(key, &mut out);
        }
        out
    }

    /// The driver reports what a pool, or all graphs of a device, have reserved and use.
    pub fn pool_reported(&mut self, record: &DeviceRecord, stamp: u64) -> Outcome {
        let mut out = self.begin(stamp);
        let device = device_of(record);
        let is_of_all = record.memory == Memory::Graph as u32;
        let key = if is_of_all { PoolKey::Graphs(device) } else { PoolKey::Handle(record.owner) };
        if self.pools.get(&key).copied().unwrap_or_default().is_new_peak(record.most) {
            // Between two reports it may have grown and shrunk.
            self.change_pool(key, device, &mut out, |pool| pool.reserve(record.most));
        }
        self.change_pool(key, device, &mut out, |pool| pool.reserve(record.bytes));
        if is_of_all {
            let before = self.graphs.insert(device, record.extra).unwrap_or(0);
            let bytes = record.extra as i64 - before as i64;
            self.change_used(device, Change::of_all(bytes), &mut out);
        }
        out
    }

    /// A context, or (0) all of a device, has come to its end.
    pub fn end(&mut self, context: u64, device: Option<u32>, stamp: u64) -> Outcome {
        let mut out = self.begin(stamp);
        let is_of = |live: &DeviceBlock| match context {
            0 => live.device == device,
            _ => live.context == context,
        };
        let ended: Vec<Key> =
            self.blocks.iter().filter(|(_, live)| is_of(live)).map(|(key, _)| *key).collect();
        for key in ended {
            self.remove_inside(key, &mut out);
            self.remove(key, &mut out);
        }
        if context == 0 {
            self.remove_pools(device, &mut out);
        }
        out
    }

    /// The process has ended: its blocks. What they add up to stays as it was.
    pub fn end_all(&mut self) -> BTreeMap<Key, DeviceBlock> {
        self.missing += self.late.take_missing();
        std::mem::take(&mut self.blocks)
    }

    /// All live blocks.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &DeviceBlock)> {
        self.blocks.iter().map(|(key, live)| (*key, live))
    }

    /// The block that an address lies in, of a framework or else of the driver, and where it
    /// begins.
    pub fn around(&self, address: u64) -> Option<(u64, &DeviceBlock)> {
        [Class::Framework, Class::Device].into_iter().find_map(|class| {
            let (key, live) = self.blocks.range(..=Key { class, address }).next_back()?;
            (key.class == class && address < live.end(key.address)).then_some((key.address, live))
        })
    }

    /// Notes what the block contains that was acquired there then.
    pub fn set_part(&mut self, address: u64, alloc: u64, part: Part) {
        for class in [Class::Framework, Class::Device] {
            let live = self.blocks.get_mut(&Key { class, address });
            if let Some(live) = live.filter(|live| live.block.alloc == alloc) {
                live.block.part = live.block.part.max(part);
            }
        }
    }
}

#[cfg(test)]
mod tests;
