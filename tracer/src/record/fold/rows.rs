//! Rows of blocks, mappings and the timeline.

use memtrace_trace::rows::{AllocationRow, Role, TimelineRow};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Fold;
use crate::record::blocks::{Block, Part};
use crate::record::devices::{Held, Key};
use crate::record::kernel;
use crate::record::mappings::Piece;
use crate::record::process::{Holdings, Process};
use crate::record::sites::Site;
use crate::record::spans::BlockKey;

/// A live block: its process, where it is, and what it is of a device.
type Live<'a> = (u32, u64, Block, Option<(Key, &'a Held)>);

impl Fold {
    /// Writes what a process holds now.
    pub fn sample(&mut self, index: u32, stamp: u64, resident: Option<u64>) {
        let process = &self.processes[index as usize];
        let row = TimelineRow {
            process: index,
            time_ns: self.clock.ns(stamp),
            reason: "sample".into(),
            live_bytes: process.live(),
            heap_bytes: process.heap,
            mapped_bytes: process.mappings.mapped_bytes(),
            resident_bytes: resident,
            pages: self.kernel_image(index).map(|image| kernel::pages(&image.now)),
            device_bytes: process.devices.as_ref().map(|devices| devices.driver()),
        };
        self.write(|out| out.timeline(row));
    }

    /// The largest live blocks of all processes, as rows without a release.
    pub fn live_set(&self) -> Vec<AllocationRow> {
        const ROWS_MAX: usize = 1 << 16;
        let running = self.processes.iter().filter(|process| process.end.is_none());
        let mut live: Vec<Live> = Vec::new();
        for process in running {
            let index = process.row.process;
            live.extend(process.blocks.iter().map(|(address, block)| (index, address, block, None)));
            live.extend(process.mappings.iter().map(|piece| (index, piece.start, as_block(piece), None)));
            let held = process.devices.iter().flat_map(|devices| devices.iter());
            live.extend(held.map(|(key, held)| (index, key.address, held.block, Some((key, held)))));
        }
        if live.len() > ROWS_MAX {
            live.select_nth_unstable_by_key(ROWS_MAX, |(_, _, block, _)| std::cmp::Reverse(block.bytes));
            live.truncate(ROWS_MAX);
        }
        live.iter()
            .map(|(process, address, block, of_device)| match of_device {
                Some((key, held)) => self.device_row(*process, *key, held, None),
                None => self.row(*process, *address, block, None, false),
            })
            .collect()
    }

    /// Who holds what now.
    pub(super) fn holdings(&self, process: &Process) -> Holdings {
        let mut operators: FxHashMap<&str, u64> = FxHashMap::default();
        let mut sites: FxHashMap<Site, u64> = FxHashMap::default();
        let of_site = |block: &Block| self.sites.weights.bytes(block.bytes);
        let blocks = process.blocks.iter();
        let blocks = blocks.map(|(_, block)| (block.span, block.site, block.bytes, of_site(&block)));
        let pieces = process.mappings.iter();
        let pieces = pieces.map(|piece| (piece.span, piece.site, piece.touched, piece.touched));
        for (span, site, bytes, of_site) in blocks.chain(pieces) {
            if let Some(span) = span {
                *operators.entry(self.spans.operator(span)).or_default() += bytes;
            }
            if let Some(site) = site {
                *sites.entry(site).or_default() += of_site;
            }
        }
        let operators = operators.into_iter().map(|(name, bytes)| (name.to_string(), bytes));
        Holdings {
            live: process.live(),
            operators: most_first(operators.collect()),
            sites: most_first(sites.into_iter().collect()),
        }
    }

    /// True if it is to be told which part of the block was touched.
    #[inline(always)]
    pub(super) fn is_large(&self, block: &Block) -> bool {
        block.bytes >= kernel::LARGE && self.kernel.is_some()
    }

    #[inline]
    pub(super) fn write_block(
        &mut self,
        process: u32,
        address: u64,
        block: &Block,
        free: Option<u64>,
        once: &FxHashSet<BlockKey>,
    ) {
        if self.folded.takes(block) {
            let lifetime = free.map(|free| self.clock.ns(free) - self.clock.ns(block.alloc));
            return self.folded.add(block, lifetime);
        }
        let row = self.row(process, address, block, free, once.contains(&(address, block.alloc)));
        self.write(|out| out.allocation(row));
    }

    pub(super) fn write_piece(
        &mut self,
        process: u32,
        piece: &Piece,
        free: Option<u64>,
        once: &FxHashSet<BlockKey>,
    ) {
        let block = as_block(piece);
        if self.is_large(&block) {
            self.note_untouched(process, piece.start, &block, free);
        }
        self.write_block(process, piece.start, &block, free, once);
    }

    #[inline(always)]
    pub(super) fn row(
        &self,
        process: u32,
        address: u64,
        block: &Block,
        free: Option<u64>,
        once: bool,
    ) -> AllocationRow {
        AllocationRow {
            process,
            thread: block.thread,
            kind: block.kind,
            address: self.folded.keeps_address(block, free.is_some()).then_some(address),
            bytes: block.bytes,
            alloc_ns: self.clock.ns(block.alloc),
            free_ns: free.map(|stamp| self.clock.ns(stamp)),
            site: block.site.map(|site| self.sites.id(site)),
            ordinal: block.ordinal,
            span: block.span,
            role: self.role(block.span, block.part, free.is_some(), once),
            device: None,
        }
    }

    fn role(&self, span: Option<u32>, part: Part, freed: bool, once: bool) -> Role {
        match (span, part) {
            _ if once => Role::Once,
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
