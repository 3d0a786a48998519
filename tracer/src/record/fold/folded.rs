//! Blocks that get no row (`--min-size`, `--aggregate`): exact sums by call stack and kind instead.

use memtrace_trace::rows::{FoldedRow, Kind};
use memtrace_wire::sampling::Sampling;
use rustc_hash::FxHashMap;

use crate::record::blocks::Block;
use crate::record::sites::{Site, Sites};

/// Which blocks get rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keep {
    /// Heap blocks of at least so many bytes, and mappings.
    pub min_bytes: u64,
    /// Not even those.
    pub none: bool,
    /// Rows of small blocks that were released have their address too.
    pub addresses: bool,
}

/// Sums of the blocks without rows.
#[derive(Default)]
pub struct Folded {
    /// Which blocks get rows.
    pub keep: Keep,
    sums: FxHashMap<(Option<Site>, Kind), Sum>,
}

#[derive(Default)]
struct Sum {
    blocks: u64,
    requested: u64,
    released: u64,
    lifetime_ns: u64,
}

impl Folded {
    /// Nothing yet.
    pub fn new(keep: Keep) -> Folded {
        Folded { keep, sums: FxHashMap::default() }
    }

    /// True for a block that gets no row.
    #[inline]
    pub fn takes(&self, block: &Block) -> bool {
        self.keep.none || block.bytes < self.keep.min_bytes && block.kind.is_heap()
    }

    /// Whether anybody will ask where a block was: the address of a small one that is gone is a third of its row.
    pub fn keeps_address(&self, block: &Block, is_released: bool) -> bool {
        let large = block.bytes >= Sampling::AUTO.exact_from || !block.kind.is_heap();
        self.keep.addresses || large || !is_released
    }

    /// Adds a block that has ended, after so long if it was released.
    pub fn add(&mut self, block: &Block, lifetime_ns: Option<i64>) {
        let sum = self.sums.entry((block.site, block.kind)).or_default();
        sum.blocks += 1;
        sum.requested += block.bytes;
        sum.released += u64::from(lifetime_ns.is_some());
        sum.lifetime_ns += lifetime_ns.map_or(0, |ns| ns.max(0) as u64);
    }

    /// How many there are.
    pub fn blocks(&self) -> u64 {
        self.sums.values().map(|sum| sum.blocks).sum()
    }

    /// The rows of `folded`, the most bytes first.
    pub fn rows(&self, sites: &Sites) -> Vec<FoldedRow> {
        let row = |((site, kind), sum): (&(Option<Site>, Kind), &Sum)| FoldedRow {
            site: site.map(|site| sites.id(site)),
            kind: *kind,
            blocks: sum.blocks,
            requested_bytes: sum.requested,
            released: sum.released,
            lifetime_ns: sum.lifetime_ns,
        };
        let mut rows: Vec<FoldedRow> = self.sums.iter().map(row).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.requested_bytes), row.site, row.kind));
        rows
    }
}
