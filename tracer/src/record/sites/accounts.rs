//! Live bytes per site, now and at the last peak of all live bytes, without ever reading all
//! sites: a site notes its value when it first changes after a new peak. The same of devices, whose
//! bytes peak at another time.

use memtrace_trace::rows::{SiteRow, Untouched};
use memtrace_trace::weights::SiteWeights;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::record::state::blocks::Site;

/// The bytes of one site.
#[derive(Debug, Clone, Copy, Default)]
pub struct Account {
    /// Blocks allocated.
    pub blocks: u64,
    /// Sum of their sizes.
    pub requested: u64,
    /// Largest sum of its live bytes.
    pub peak: u64,
    /// Its live bytes.
    pub live: Bytes,
    /// Of them, what sampled blocks stand for.
    pub sampled: Bytes,
    /// Its live bytes when the programs of their processes ended.
    pub at_end: u64,
    /// Of them, what sampled blocks stand for.
    pub sampled_at_end: u64,
    /// Its blocks then.
    pub blocks_at_end: u64,
}

impl Account {
    /// Something was allocated that counts for this many blocks and bytes.
    pub fn acquired(&mut self, blocks: u64, bytes: u64) {
        self.blocks += blocks;
        self.requested += bytes;
    }

    /// Live bytes change; `peaks` peaks have been seen so far.
    pub fn change(&mut self, bytes: i64, peaks: u64) {
        self.live.change(bytes, peaks);
        self.peak = self.peak.max(self.live.now());
    }
}

/// A sum, now and at the last peak of all sums together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bytes {
    now: u64,
    at_peak: u64,
    /// The peak that `at_peak` is of, by number.
    noted: u64,
}

impl Bytes {
    /// It changes; `peaks` peaks have been seen so far.
    #[inline(always)]
    pub fn change(&mut self, bytes: i64, peaks: u64) {
        if self.noted != peaks {
            self.at_peak = self.now;
            self.noted = peaks;
        }
        self.now = self.now.saturating_add_signed(bytes);
    }

    /// Now.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// When the last of `peaks` peaks was reached.
    pub fn at_peak(&self, peaks: u64) -> u64 {
        if self.noted == peaks { self.at_peak } else { self.now }
    }
}

/// The accounts of all sites.
#[derive(Default)]
pub struct Accounts {
    /// By number.
    all: Vec<Account>,
    /// What a block that has a call stack counts for.
    weights: SiteWeights,
    /// New peaks of all live bytes so far.
    peaks: u64,
    /// Used bytes of devices, by site.
    devices: FxHashMap<u32, Bytes>,
    /// New peaks of all of them so far.
    device_peaks: u64,
    /// Sites of calls that were refused memory.
    refused: FxHashSet<u32>,
    /// What of large blocks was never touched, by site; `None` where that is not known.
    untouched: Option<FxHashMap<u32, Untouched>>,
}

impl Accounts {
    /// None yet.
    pub fn new(weights: SiteWeights) -> Accounts {
        Accounts { weights, ..Accounts::default() }
    }

    /// A new site: the next one.
    pub fn add(&mut self) -> Site {
        self.all.push(Account::default());
        Site::new(self.all.len() as u32).unwrap_or(Site::MIN)
    }

    /// From now on it is known what of large blocks was never touched.
    pub fn watch_touches(&mut self) {
        self.untouched.get_or_insert_default();
    }

    /// What a block with a call stack counts for, in bytes.
    pub fn weight(&self, bytes: u64) -> u64 {
        self.weights.bytes(bytes)
    }

    /// Live bytes of each site, by number.
    pub fn live_bytes(&self) -> impl Iterator<Item = u64> {
        self.all.iter().map(|account| account.live.now())
    }

    /// A heap block was allocated.
    #[inline]
    pub fn acquired(&mut self, site: Site, bytes: u64) {
        let (blocks, weight) = (self.weights.blocks(bytes), self.weights.bytes(bytes));
        self.all[site.get() as usize - 1].acquired(blocks, weight);
    }

    /// A mapping was made: one that has a stack was not sampled, even if it is a small part of a
    /// large one that was moved.
    pub fn mapped(&mut self, site: Site, bytes: u64) {
        self.all[site.get() as usize - 1].acquired(1, bytes);
    }

    /// A block of a device was allocated.
    pub fn on_device(&mut self, site: Site) {
        self.devices.entry(site.get()).or_default();
    }

    /// A call of this site was refused memory: it has a row, blocks or not.
    pub fn refused(&mut self, site: Site) {
        self.refused.insert(site.get());
    }

    /// A heap block of a site was live when its program ended.
    pub fn block_at_end(&mut self, site: Option<Site>, bytes: u64) {
        let (blocks, weight) = (self.weights.blocks(bytes), self.weights.bytes(bytes));
        self.add_at_end(site, blocks, weight);
        if let Some(site) = site.filter(|_| !self.weights.is_exact(bytes)) {
            self.all[site.get() as usize - 1].sampled_at_end += weight;
        }
    }

    /// A mapping, of which this much was touched.
    pub fn mapping_at_end(&mut self, site: Option<Site>, touched: u64) {
        self.add_at_end(site, 1, touched);
    }

    fn add_at_end(&mut self, site: Option<Site>, blocks: u64, bytes: u64) {
        if let Some(site) = site {
            let account = &mut self.all[site.get() as usize - 1];
            account.blocks_at_end += blocks;
            account.at_end += bytes;
        }
    }

    /// A block of a site is live (bytes > 0), or no longer.
    #[inline]
    pub fn count_block(&mut self, site: Option<Site>, bytes: i64) {
        let Some(number) = site else { return };
        let size = bytes.unsigned_abs();
        let weighted = self.weights.bytes(size) as i64 * bytes.signum();
        self.change(site, weighted);
        if !self.weights.is_exact(size) {
            self.all[number.get() as usize - 1].sampled.change(weighted, self.peaks);
        }
    }

    /// Live bytes of a site change.
    #[inline]
    pub fn change(&mut self, site: Option<Site>, bytes: i64) {
        if let Some(site) = site {
            self.all[site.get() as usize - 1].change(bytes, self.peaks);
        }
    }

    /// Used bytes of devices of a site change.
    pub fn change_on_devices(&mut self, site: Option<Site>, bytes: i64) {
        if let Some(site) = site {
            self.devices.entry(site.get()).or_default().change(bytes, self.device_peaks);
        }
    }

    /// A part of a block was never touched.
    pub fn untouched(&mut self, site: Option<Site>, of_bytes: u64, bytes: u64) {
        if let (Some(site), Some(untouched)) = (site, &mut self.untouched) {
            let sum = untouched.entry(site.get()).or_default();
            sum.blocks += 1;
            sum.of_bytes += of_bytes;
            sum.bytes += bytes;
        }
    }

    /// All live bytes together have reached a new peak.
    #[inline]
    pub fn new_peak(&mut self) {
        self.peaks += 1;
    }

    /// All used bytes of devices together have reached a new peak.
    pub fn new_device_peak(&mut self) {
        self.device_peaks += 1;
    }

    /// The figures of a site as its row has them; `None` if nothing was allocated there. Used bytes
    /// of devices may be at their peak just now.
    pub fn row(&self, site: Site, devices_peak: bool) -> Option<SiteRow> {
        let (number, account) = (site.get(), &self.all[site.get() as usize - 1]);
        let at_peak =
            |bytes: &Bytes| if devices_peak { bytes.now() } else { bytes.at_peak(self.device_peaks) };
        let device_bytes_at_peak = self.devices.get(&number).map(at_peak);
        let is_known = account.blocks > 0 || device_bytes_at_peak.is_some() || self.refused.contains(&number);
        is_known.then(|| SiteRow {
            blocks: account.blocks,
            requested_bytes: account.requested,
            peak_live_bytes: account.peak,
            live_bytes_at_peak: account.live.at_peak(self.peaks),
            sampled_bytes_at_peak: account.sampled.at_peak(self.peaks),
            live_bytes_at_end: account.at_end,
            sampled_bytes_at_end: account.sampled_at_end,
            live_blocks_at_end: account.blocks_at_end,
            untouched: self.untouched.as_ref().map(|all| all.get(&number).copied().unwrap_or_default()),
            device_bytes_at_peak,
            ..SiteRow::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against noting every site at every peak.
        #[test]
        fn lazily_noted_values_are_those_of_the_peak(
            changes in prop::collection::vec((0..4usize, -50..60i64), 1..200),
        ) {
            let mut accounts = [Account::default(); 4];
            let (mut live, mut at_peak) = ([0i64; 4], [0i64; 4]);
            let (mut most, mut peaks) = (0, 0);
            for (site, bytes) in changes {
                let bytes = bytes.max(-live[site]);
                accounts[site].change(bytes, peaks);
                live[site] += bytes;
                let total: i64 = live.iter().sum();
                if total > most {
                    (most, at_peak) = (total, live);
                    peaks += 1;
                }
            }
            for site in 0..4 {
                prop_assert_eq!(accounts[site].live.at_peak(peaks) as i64, at_peak[site]);
            }
        }
    }

    #[test]
    fn a_site_has_a_row_once_something_was_allocated_there() {
        let mut accounts = Accounts::default();
        let (heap, device) = (accounts.add(), accounts.add());
        assert_eq!(accounts.row(heap, false), None);
        accounts.acquired(heap, 100);
        accounts.count_block(Some(heap), 100);
        accounts.new_peak();
        accounts.count_block(Some(heap), -100);
        let row = accounts.row(heap, false).unwrap();
        assert_eq!((row.blocks, row.live_bytes_at_peak, row.untouched), (1, 100, None));
        accounts.on_device(device);
        accounts.change_on_devices(Some(device), 7);
        let at_peak = |devices_peak| accounts.row(device, devices_peak).unwrap().device_bytes_at_peak;
        assert_eq!((at_peak(true), at_peak(false)), (Some(7), Some(0)));
    }
}
