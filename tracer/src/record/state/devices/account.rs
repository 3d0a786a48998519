//! The figures of one device in one process.

use memtrace_trace::rows::DeviceRow;

use super::DeviceBlock;
use super::kinds::Counts;
use crate::record::state::blocks::Site;

/// A sum and its peak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Now.
    pub now: u64,
    /// At its largest.
    pub peak: u64,
}

impl Sum {
    /// It grows, or shrinks.
    pub fn change(&mut self, bytes: i64) {
        self.now = self.now.saturating_add_signed(bytes);
        self.peak = self.peak.max(self.now);
    }
}

/// How used bytes change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The innermost span that those bytes were allocated in.
    pub span: Option<u32>,
    /// Where they were allocated, if that is known.
    pub site: Option<Site>,
    /// By how much.
    pub bytes: i64,
    /// They were not released: a framework's blocks count in their place from now on.
    pub carved: bool,
}

impl Change {
    /// Of a block.
    pub fn of(live: &DeviceBlock, bytes: i64) -> Change {
        Change { span: live.block.span, site: live.block.site, bytes, carved: false }
    }

    /// Of no single block: what all graphs of a device use, or all that a process does.
    pub fn of_all(bytes: i64) -> Change {
        Change { span: None, site: None, bytes, carved: false }
    }
}

/// Used bytes and their peak. Memory that a framework requests of the driver to suballocate it is
/// reported first, the first of its blocks after that. So a peak is one only when something is
/// released: then it is known what was carved up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    now: i64,
    noted: i64,
}

impl Used {
    /// They change. True if they were at a new peak before.
    pub fn change(&mut self, change: Change) -> bool {
        let peaked = change.bytes < 0 && !change.carved && self.is_at_peak();
        if peaked {
            self.noted = self.now;
        }
        self.now += change.bytes;
        peaked
    }

    /// True if there were never more.
    pub fn is_at_peak(&self) -> bool {
        self.now > self.noted
    }

    /// Now.
    pub fn now(&self) -> u64 {
        self.now.max(0) as u64
    }

    /// At their largest.
    pub fn peak(&self) -> u64 {
        self.noted.max(self.now).max(0) as u64
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Account {
    /// Name and size, once they were reported.
    pub about: Option<(String, u64)>,
    /// Driver bytes.
    driver: Sum,
    /// Stamp of their peak.
    peak: u64,
    used: Used,
    /// Most used bytes at the peak of driver bytes, as far as that is known.
    used_at_peak: u64,
    /// What pools and graphs have reserved.
    pools: Sum,
    managed: Sum,
    host: Sum,
    registered: Sum,
    imported: Sum,
    /// What frameworks have suballocated, and the most they reported to have reserved; if they
    /// reported any.
    framework: Option<(Sum, u64)>,
    /// Blocks allocated.
    pub allocations: u64,
    /// Sum of their sizes.
    pub requested: u64,
    /// Releases of blocks that were not known.
    pub unseen: u64,
}

impl Account {
    /// Driver bytes grow, or shrink.
    pub fn change_driver(&mut self, bytes: i64, stamp: u64) {
        if bytes < 0 {
            self.used_at_peak = self.used_at_peak();
        }
        let before = self.driver.peak;
        self.driver.change(bytes);
        if self.driver.peak > before {
            (self.peak, self.used_at_peak) = (stamp, 0);
        }
    }

    /// So do what pools have reserved, which are driver bytes.
    pub fn change_pools(&mut self, bytes: i64, stamp: u64) {
        self.pools.change(bytes);
        self.change_driver(bytes, stamp);
    }

    /// Used bytes change.
    pub fn change_used(&mut self, change: Change) {
        if change.bytes < 0 && !change.carved {
            self.used_at_peak = self.used_at_peak();
        }
        self.used.change(change);
    }

    /// So do bytes that are neither.
    pub fn change_other(&mut self, counts: Counts, bytes: i64) {
        match counts {
            Counts::Managed => self.managed.change(bytes),
            Counts::Host => self.host.change(bytes),
            Counts::Registered => self.registered.change(bytes),
            Counts::Imported => self.imported.change(bytes),
            Counts::Framework => self.framework.get_or_insert_default().0.change(bytes),
            Counts::Driver | Counts::Pool | Counts::Nothing => {}
        }
    }

    /// A framework reports how much it has reserved.
    pub fn framework_reserved(&mut self, bytes: u64) {
        let (_, most) = self.framework.get_or_insert_default();
        *most = bytes.max(*most);
    }

    fn used_at_peak(&self) -> u64 {
        let at_peak = self.driver.now == self.driver.peak;
        if at_peak { self.used_at_peak.max(self.used.now()) } else { self.used_at_peak }
    }

    /// True if nothing is known of it: an address that is no block's was released in vain.
    pub fn is_empty(&self) -> bool {
        self.about.is_none() && self.allocations == 0 && self.unseen == 0 && self.driver.peak == 0
    }

    /// Its row, with stamps converted.
    pub fn row(&self, process: u32, device: Option<u32>, ns: impl Fn(u64) -> i64) -> DeviceRow {
        DeviceRow {
            process,
            device,
            name: self.about.as_ref().map(|(name, _)| name.clone()),
            total_bytes: self.about.as_ref().map(|(_, bytes)| *bytes),
            peak_driver_bytes: self.driver.peak,
            peak_ns: if self.driver.peak > 0 { ns(self.peak) } else { 0 },
            used_at_peak_bytes: self.used_at_peak(),
            peak_used_bytes: self.used.peak(),
            peak_pool_bytes: self.pools.peak,
            peak_framework_bytes: self.framework.map(|(sum, _)| sum.peak),
            peak_framework_reserved_bytes: self.framework.map(|(_, most)| most),
            peak_managed_bytes: self.managed.peak,
            peak_host_bytes: self.host.peak,
            peak_registered_bytes: self.registered.peak,
            peak_imported_bytes: self.imported.peak,
            allocations: self.allocations,
            requested_bytes: self.requested,
            unseen_releases: self.unseen,
        }
    }
}
