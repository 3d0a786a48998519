//! Blocks that get no row (`--min-size`, `--aggregate`): exact sums by call stack and kind instead.

use memtrace_trace::rows::{FoldedRow, Kind};
use memtrace_wire::sampling::Sampling;
use rustc_hash::FxHashMap;

use crate::record::sites::Sites;
use crate::record::state::blocks::{Block, Site};

/// Which blocks get rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keep {
    /// Heap blocks of at least this many bytes, and mappings.
    pub min_bytes: u64,
    /// Not even those.
    pub none: bool,
    /// Rows of small blocks that were released have their address too.
    pub addresses: bool,
}

/// Sums of the blocks without rows.
#[derive(Default)]
pub struct BlockSums {
    keep: Keep,
    sums: FxHashMap<(Option<Site>, Kind), Sum>,
}

#[derive(Default)]
struct Sum {
    blocks: u64,
    requested: u64,
    released: u64,
    lifetime_ns: u64,
}

impl BlockSums {
    /// Nothing yet.
    pub fn new(keep: Keep) -> BlockSums {
        BlockSums { keep, sums: FxHashMap::default() }
    }

    /// True for a block that gets no row.
    #[inline]
    pub fn takes(&self, block: &Block) -> bool {
        self.keep.none || block.bytes < self.keep.min_bytes && block.kind.is_heap()
    }

    /// Whether a block's row has its address: that of a small one that is gone is a third of its
    /// row, and of no use.
    #[inline]
    pub fn keeps_address(&self, block: &Block, is_released: bool) -> bool {
        let large = block.bytes >= Sampling::AUTO.exact_from || !block.kind.is_heap();
        self.keep.addresses || large || !is_released
    }

    /// Adds a block that has ended, after this long if it was released.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: u64, kind: Kind) -> Block {
        Block { kind, ..Block::plain(bytes, 0) }
    }

    #[test]
    fn small_heap_blocks_are_summed_and_mappings_are_not() {
        let mut sums = BlockSums::new(Keep { min_bytes: 100, ..Keep::default() });
        assert!(sums.takes(&block(99, Kind::Malloc)));
        assert!(!sums.takes(&block(100, Kind::Malloc)));
        assert!(!sums.takes(&block(99, Kind::MapAnonymous)));
        sums.add(&block(60, Kind::Malloc), Some(5));
        sums.add(&block(40, Kind::Malloc), None);
        sums.add(&block(500, Kind::Calloc), Some(-1));
        let rows = sums.rows(&Sites::default());
        assert_eq!((rows[0].requested_bytes, rows[0].lifetime_ns), (500, 0));
        assert_eq!((rows[1].blocks, rows[1].requested_bytes, rows[1].released), (2, 100, 1));
        assert_eq!((rows[1].lifetime_ns, sums.blocks()), (5, 3));
    }

    #[test]
    fn with_aggregate_no_block_gets_a_row() {
        let sums = BlockSums::new(Keep { none: true, ..Keep::default() });
        assert!(sums.takes(&block(1 << 30, Kind::MapAnonymous)));
    }
}
