//! How large heap blocks were, and how long they were live.

use memtrace_trace::{AllocationRecord, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;
use crate::parallel::{in_parallel, threads};

/// Sizes by powers of two, and one for empty blocks.
const SIZES: usize = u64::BITS as usize + 1;
/// Lifetimes by powers of ten, from 1 µs on.
const LIFETIMES: usize = 17;
/// A microsecond has ten to the power of this many nanoseconds.
const MICRO: u32 = 3;

/// Heap blocks by size and by lifetime: what `memtrace report --histograms --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Histograms {
    /// Heap blocks that were allocated.
    pub blocks: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// By size in bytes, from the smallest on; each bin ends at twice its beginning.
    pub sizes: Vec<Bin>,
    /// By nanoseconds from the allocation to the release, from the shortest on; each bin but the
    /// first ends at ten times its beginning.
    pub lifetimes: Vec<Bin>,
    /// Blocks that were not released while the program was recorded.
    pub unreleased_blocks: u64,
    /// Sum of their sizes.
    pub unreleased_bytes: u64,
}

/// Blocks between two bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bin {
    /// The least that is in it.
    pub from: u64,
    /// The least that is beyond it; null if nothing can be.
    pub to: Option<u64>,
    /// How many blocks.
    pub blocks: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

/// Reads the rows of all blocks.
///
/// # Errors
/// A table cannot be read, or not every block has a row.
pub fn histograms(trace: &Trace) -> Result<Histograms, Error> {
    if let Some(why) = trace.meta().rows.missing(0) {
        return Err(Error::NoRows(why.into()));
    }
    let groups = trace.block_groups()?;
    let read = |counts: &mut Counts, index: usize| {
        groups[index].records(|record| counts.add(&record)).map_err(Error::from)
    };
    let parts = in_parallel(groups.len(), threads(), Counts::default, read)?;
    let mut sum = Counts::default();
    parts.into_iter().for_each(|part| sum.join(part));
    Ok(sum.histograms())
}

/// Blocks and bytes by the number of their bin.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    sizes: [Sum; SIZES],
    lifetimes: [Sum; LIFETIMES],
    unreleased: Sum,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    blocks: u64,
    bytes: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        let (sizes, lifetimes) = ([Sum::default(); SIZES], [Sum::default(); LIFETIMES]);
        Counts { sizes, lifetimes, unreleased: Sum::default() }
    }
}

impl Sum {
    fn add(&mut self, blocks: u64, bytes: u64) {
        self.blocks = self.blocks.saturating_add(blocks);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Counts {
    /// Adds a block, if it is on the heap.
    pub(crate) fn add(&mut self, record: &AllocationRecord) {
        if !record.kind.is_heap() {
            return;
        }
        self.sizes[size_bin(record.bytes)].add(1, record.bytes);
        let sum = match record.free_ns {
            Some(free) => &mut self.lifetimes[lifetime_bin(free.saturating_sub(record.alloc_ns))],
            None => &mut self.unreleased,
        };
        sum.add(1, record.bytes);
    }

    /// Adds what was counted elsewhere.
    pub(crate) fn join(&mut self, other: Counts) {
        let sizes = self.sizes.iter_mut().zip(other.sizes);
        let lifetimes = self.lifetimes.iter_mut().zip(other.lifetimes);
        let unreleased = [(&mut self.unreleased, other.unreleased)];
        sizes.chain(lifetimes).chain(unreleased).for_each(|(sum, more)| sum.add(more.blocks, more.bytes));
    }

    /// Their bins, without those at the ends that are empty.
    pub(crate) fn histograms(&self) -> Histograms {
        let all = self.sizes.iter().fold(Sum::default(), |mut sum, of| {
            sum.add(of.blocks, of.bytes);
            sum
        });
        let size = |bin: usize| bin.checked_sub(1).map_or(Some(0), |power| 1u64.checked_shl(power as u32));
        let lifetime = |bin: usize| match bin {
            0 => Some(0),
            bin => 10u64.checked_pow(MICRO + bin as u32 - 1),
        };
        Histograms {
            blocks: all.blocks,
            bytes: all.bytes,
            sizes: bins(&self.sizes, size),
            lifetimes: bins(&self.lifetimes, lifetime),
            unreleased_blocks: self.unreleased.blocks,
            unreleased_bytes: self.unreleased.bytes,
        }
    }
}

fn size_bin(bytes: u64) -> usize {
    bytes.checked_ilog2().map_or(0, |power| power as usize + 1)
}

fn lifetime_bin(nanoseconds: i64) -> usize {
    let power = nanoseconds.max(0).checked_ilog10().unwrap_or(0);
    (power + 1).saturating_sub(MICRO) as usize
}

fn bins(sums: &[Sum], bound: impl Fn(usize) -> Option<u64>) -> Vec<Bin> {
    let is_some = |sum: &Sum| sum.blocks > 0;
    let first = sums.iter().position(is_some).unwrap_or(0);
    let end = sums.iter().rposition(is_some).map_or(0, |last| last + 1);
    let bin = |at: usize| Bin {
        from: bound(at).unwrap_or(u64::MAX),
        to: bound(at + 1),
        blocks: sums[at].blocks,
        bytes: sums[at].bytes,
    };
    (first..end).map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_and_lifetime_is_within_its_bin() {
        let mut counts = Counts::default();
        let sizes = [0, 1, 2, 3, 4, 4095, 4096, 1 << 40, u64::MAX];
        for bytes in sizes {
            counts.sizes[size_bin(bytes)].add(1, bytes);
            let bins = counts.histograms().sizes;
            let own = bins.iter().find(|bin| bin.from <= bytes && bin.to.is_none_or(|to| bytes < to));
            assert!(own.is_some_and(|bin| bin.blocks > 0), "{bytes}");
        }
        assert_eq!(counts.histograms().blocks, sizes.len() as u64);
        let times = [0, 1, 999, 1000, 9999, 10_000, 1_000_000_000, i64::MAX];
        for time in times {
            counts.lifetimes[lifetime_bin(time)].add(1, 1);
            let bins = counts.histograms().lifetimes;
            let within = |bin: &&Bin| bin.from <= time as u64 && bin.to.is_none_or(|to| (time as u64) < to);
            assert!(bins.iter().find(within).is_some_and(|bin| bin.blocks > 0), "{time}");
        }
        let bins = counts.histograms().lifetimes;
        assert_eq!((bins[0].from, bins[0].to, bins[0].blocks), (0, Some(1000), 3));
        assert_eq!((bins[1].from, bins[1].to, bins[1].blocks), (1000, Some(10_000), 2));
    }

    #[test]
    fn nothing_has_no_bins() {
        let none = Counts::default().histograms();
        assert!(none.sizes.is_empty() && none.lifetimes.is_empty());
    }
}
