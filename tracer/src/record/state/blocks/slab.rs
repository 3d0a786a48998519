//! Blocks by number.

use memtrace_trace::rows::Kind;
use memtrace_wire::arch::prefetch;

use super::memory::push;
use super::{Block, Part, Site};

/// A block in 32 bytes; one at address 0 is none, and leads to the next free one.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(32))]
struct Entry {
    address: u64,
    alloc: u64,
    /// Bytes (the lower 50 bits, as many as `wire` carries), kind, whether it is in a span and its
    /// [`Part`].
    packed: u64,
    thread: u32,
    /// Or the next free entry.
    site: u32,
}

const BYTES_BITS: u32 = 50;
pub(super) const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;
const OUTPUT: u64 = 1 << 63;
const INPUT: u64 = 1 << 61;
const IN_SPAN: u64 = 1 << 62;
/// What allocators' symbols give; a kind is kept as its place here.
pub(super) const KINDS: [Kind; 4] = [Kind::Malloc, Kind::Calloc, Kind::Realloc, Kind::Aligned];
const _: () = assert!(KINDS[2] as usize == 2 && KINDS[3] as usize == 3);

/// Numbers are from 1. What was last released is used first: its line is still in the cache.
#[derive(Debug, Default)]
pub(super) struct Slab {
    entries: Vec<Entry>,
    /// Span and ordinal of the entries that are in one; as long as the largest number that ever was
    /// in one.
    places: Vec<(u32, u32)>,
    /// The first free entry; 0: none.
    free: u32,
}

impl Slab {
    #[inline(always)]
    pub(super) fn add(&mut self, address: u64, block: Block) -> u32 {
        let number = match self.free {
            // Free, and the last of those.
            0 => push(&mut self.entries, Entry::default()),
            number => number,
        };
        self.free = self.entries[number as usize].site;
        self.put(number, address, block);
        number
    }

    /// Puts a block in the place of another.
    #[cold]
    pub(super) fn replace(&mut self, number: u32, address: u64, block: Block) -> Block {
        let old = self.get(number);
        self.put(number, address, block);
        old
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, number: u32) -> Block {
        let block = self.get(number);
        let entry = &mut self.entries[number as usize];
        (entry.address, entry.site) = (0, self.free);
        self.free = number;
        block
    }

    #[inline(always)]
    fn put(&mut self, number: u32, address: u64, block: Block) {
        let kind = (block.kind as usize % KINDS.len()) as u64;
        let span = if block.span.is_some() { IN_SPAN } else { 0 };
        self.entries[number as usize] = Entry {
            address,
            alloc: block.alloc,
            packed: block.bytes & BYTES_MASK | kind << BYTES_BITS | span | bit_of(block.part),
            thread: block.thread,
            site: block.site.map_or(0, Site::get),
        };
        if let Some(span) = block.span {
            let least = number as usize + 1;
            if self.places.len() < least {
                self.places.resize(least.max(self.entries.len()), (0, 0));
            }
            self.places[number as usize] = (span, block.ordinal);
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> Block {
        let entry = &self.entries[number as usize];
        let in_span = entry.packed & IN_SPAN != 0;
        let (span, ordinal) = if in_span { self.places[number as usize] } else { (0, 0) };
        Block {
            bytes: entry.packed & BYTES_MASK,
            alloc: entry.alloc,
            thread: entry.thread,
            span: in_span.then_some(span),
            ordinal,
            kind: KINDS[(entry.packed >> BYTES_BITS) as usize % KINDS.len()],
            site: Site::new(entry.site),
            part: part_of(entry.packed),
        }
    }

    pub(super) fn address(&self, number: u32) -> u64 {
        self.entries[number as usize].address
    }

    pub(super) fn set_part(&mut self, number: u32, part: Part) {
        self.entries[number as usize].packed |= bit_of(part);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Block)> {
        let used = self.entries.iter().enumerate().filter(|(_, entry)| entry.address != 0);
        used.map(|(number, entry)| (entry.address, self.get(number as u32)))
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, number: u32) {
        if let Some(entry) = self.entries.get(number as usize) {
            prefetch::to_read(entry);
        }
    }
}

fn bit_of(part: Part) -> u64 {
    match part {
        Part::None => 0,
        Part::Input => INPUT,
        Part::Output => OUTPUT,
    }
}

#[inline(always)]
fn part_of(packed: u64) -> Part {
    match packed & (INPUT | OUTPUT) {
        0 => Part::None,
        INPUT => Part::Input,
        _ => Part::Output,
    }
}
