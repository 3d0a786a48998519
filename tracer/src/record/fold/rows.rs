//! Rows of blocks and mappings.

use memtrace_trace::rows::{AllocationRow, Role};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Fold;
use crate::record::state::blocks::{Block, Part, Site};
use crate::record::state::devices::{DeviceBlock, Key};
use crate::record::state::large::LARGE;
use crate::record::state::mappings::Piece;
use crate::record::state::memory::BlockKey;
use crate::record::state::process::{Process, Retained};

/// A live block.
struct Live<'a> {
    process: u32,
    address: u64,
    block: Block,
    /// What it is on a device.
    on_device: Option<(Key, &'a DeviceBlock)>,
}

impl Fold {
    /// The largest live blocks of all processes, as rows without a release.
    pub fn live_set(&self) -> Vec<AllocationRow> {
        const ROWS_MAX: usize = 1 << 16;
        let mut live: Vec<Live> = Vec::new();
        for of in self.processes.running() {
            let process = of.row.process;
            live.extend(of.heap.blocks().iter().map(|(address, block)| Live {
                process,
                address,
                block,
                on_device: None,
            }));
            live.extend(of.mappings.iter().map(|piece| Live {
                process,
                address: piece.start,
                block: as_block(piece),
                on_device: None,
            }));
            let devices = of.devices.iter().flat_map(|devices| devices.iter());
            live.extend(devices.map(|(key, found)| Live {
                process,
                address: key.address,
                block: found.block,
                on_device: Some((key, found)),
            }));
        }
        if live.len() > ROWS_MAX {
            live.select_nth_unstable_by_key(ROWS_MAX, |live| std::cmp::Reverse(live.block.bytes));
            live.truncate(ROWS_MAX);
        }
        live.iter()
            .map(|Live { process, address, block, on_device }| match on_device {
                Some((key, found)) => self.device_row(*process, *key, found, None),
                None => self.row(*process, *address, block, None, false),
            })
            .collect()
    }

    /// What a process retains now, by operator and by call stack.
    pub(super) fn retained(&self, process: &Process) -> Retained {
        let mut operators: FxHashMap<&str, u64> = FxHashMap::default();
        let mut sites: FxHashMap<Site, u64> = FxHashMap::default();
        let of_site = |block: &Block| self.sites.weight(block.bytes);
        let blocks = process.heap.blocks().iter();
        let blocks = blocks.map(|(_, block)| (block.span, block.site, block.bytes, of_site(&block)));
        let pieces = process.mappings.iter();
        let pieces = pieces.map(|piece| (piece.span, piece.site, piece.touched, piece.touched));
        for (span, site, bytes, of_site) in blocks.chain(pieces) {
            if let Some(operator) = span.and_then(|span| self.spans.operator(span)) {
                *operators.entry(operator).or_default() += bytes;
            }
            if let Some(site) = site {
                *sites.entry(site).or_default() += of_site;
            }
        }
        let operators = operators.into_iter().map(|(name, bytes)| (name.to_string(), bytes));
        Retained {
            live: process.live(),
            operators: most_first(operators.collect()),
            sites: most_first(sites.into_iter().collect()),
        }
    }

    /// True if the untouched part of the block gets a row.
    #[inline(always)]
    pub(super) fn is_large(&self, block: &Block) -> bool {
        block.bytes >= LARGE && self.sees_faults()
    }

    #[inline]
    pub(super) fn write_block(
        &mut self,
        process: u32,
        address: u64,
        block: &Block,
        free: Option<u64>,
        one_time: &FxHashSet<BlockKey>,
    ) {
        if self.rows.is_summed(block) {
            let lifetime = free.map(|free| self.clock.ns(free) - self.clock.ns(block.alloc));
            return self.rows.add(block, lifetime);
        }
        let row = self.row(process, address, block, free, one_time.contains(&(address, block.alloc)));
        self.rows.allocation(row);
    }

    pub(super) fn write_piece(
        &mut self,
        process: u32,
        piece: &Piece,
        free: Option<u64>,
        one_time: &FxHashSet<BlockKey>,
    ) {
        let block = as_block(piece);
        if self.is_large(&block) {
            self.note_untouched(process, piece.start, &block, free);
        }
        self.write_block(process, piece.start, &block, free, one_time);
    }

    #[inline(always)]
    pub(super) fn row(
        &self,
        process: u32,
        address: u64,
        block: &Block,
        free: Option<u64>,
        one_time: bool,
    ) -> AllocationRow {
        AllocationRow {
            process,
            thread: block.thread,
            kind: block.kind,
            address: self.rows.keeps_address(block, free.is_some()).then_some(address),
            bytes: block.bytes,
            alloc_ns: self.clock.ns(block.alloc),
            free_ns: free.map(|stamp| self.clock.ns(stamp)),
            site: block.site.map(|site| self.sites.id(site)),
            ordinal: block.ordinal,
            span: block.span,
            role: self.role(block.span, block.part, free.is_some(), one_time),
            device: None,
        }
    }

    fn role(&self, span: Option<u32>, part: Part, freed: bool, one_time: bool) -> Role {
        match (span, part) {
            _ if one_time => Role::OneTime,
            (_, Part::Output) => Role::Output,
            (Some(span), _) if freed && self.spans.is_open(span) => Role::Temporary,
            (_, Part::Input) => Role::Input,
            _ => Role::None,
        }
    }
}

/// The largest shares first, equal ones in a fixed order.
fn most_first<T: Ord>(mut shares: Vec<(T, u64)>) -> Vec<(T, u64)> {
    shares.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    shares
}

/// A mapping as a row sees it.
fn as_block(piece: &Piece) -> Block {
    Block {
        bytes: piece.bytes,
        alloc: piece.alloc,
        thread: piece.thread,
        span: piece.span,
        ordinal: piece.ordinal,
        kind: piece.kind,
        site: piece.site,
        part: piece.part,
    }
}
