//! The live heap blocks of one process, by address.
//!
//! Millions of blocks come and go each second at addresses that seem random, so what counts is the number of cache
//! lines per look-up: open addressing with linear probing in entries of 32 bytes, at most three eighths full (each probe more than one costs a mispredicted branch), where a
//! removal shifts the entries behind it back. Whoever knows what comes next asks for its line beforehand
//! ([`Blocks::prefetch`]). What only blocks inside spans have is kept apart.

use memtrace_trace::rows::Kind;

use super::sites::Site;

/// A live heap block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Requested bytes.
    pub bytes: u64,
    /// Stamp of the acquire.
    pub alloc: u64,
    /// Who allocated it.
    pub thread: u32,
    /// Innermost span, if any.
    pub span: Option<u32>,
    /// Position among the blocks of its kind in that span.
    pub ordinal: u32,
    /// Which call made it.
    pub kind: Kind,
    /// Where it was allocated, if that is known.
    pub site: Option<Site>,
    /// Holds an output of its span.
    pub output: bool,
}

/// A block as the table holds it; address 0 is an empty entry.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(32))]
struct Entry {
    address: u64,
    alloc: u64,
    /// Bytes (the lower 50 bits, as many as `wire` carries), kind, and whether it holds an output.
    packed: u64,
    thread: u32,
    site: u32,
}

const BYTES_BITS: u32 = 50;
const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;
const OUTPUT: u64 = 1 << 63;
const IN_SPAN: u64 = 1 << 62;
/// What allocators' symbols give; a kind is kept as its place here.
const KINDS: [Kind; 4] = [Kind::Malloc, Kind::Calloc, Kind::Realloc, Kind::Aligned];
const _: () = assert!(KINDS[2] as usize == 2 && KINDS[3] as usize == 3);

/// Smallest table that is not empty.
const ENTRIES_MIN: usize = 64;

/// See the module.
#[derive(Debug, Default, Clone)]
pub struct Blocks {
    entries: Vec<Entry>,
    /// Span and ordinal of the entries that are in one; empty until a block is.
    places: Vec<(u32, u32)>,
    used: usize,
    /// How many there may be before the table grows: three eighths of its length.
    most: usize,
}

impl Blocks {
    /// Adds a block. Returns the one that was at this address. (Nothing is at address 0.)
    #[inline(always)]
    pub fn insert(&mut self, address: u64, block: Block) -> Option<Block> {
        if self.used >= self.most {
            self.grow();
        }
        if address == 0 {
            return None;
        }
        let at = self.find(address);
        let old = (self.entry(at).address != 0).then(|| self.block(at));
        self.used += usize::from(old.is_none());
        let kind = (block.kind as usize % KINDS.len()) as u64;
        let span = if block.span.is_some() { IN_SPAN } else { 0 };
        let output = if block.output { OUTPUT } else { 0 };
        *self.entry_mut(at) = Entry {
            address,
            alloc: block.alloc,
            packed: block.bytes & BYTES_MASK | kind << BYTES_BITS | span | output,
            thread: block.thread,
            site: block.site.map_or(0, Site::get),
        };
        if let Some(span) = block.span {
            self.places.resize(self.entries.len(), (0, 0));
            self.places[at] = (span, block.ordinal);
        }
        old
    }

    /// Takes the block at this address out.
    #[inline(always)]
    pub fn remove(&mut self, address: u64) -> Option<Block> {
        if self.used == 0 {
            return None;
        }
        let at = self.find(address);
        if self.entry(at).address == 0 {
            return None;
        }
        let block = self.block(at);
        self.used -= 1;
        self.close_gap(at);
        Some(block)
    }

    /// The block at this address.
    pub fn get(&self, address: u64) -> Option<Block> {
        let at = (self.used > 0).then(|| self.find(address))?;
        (self.entry(at).address != 0).then(|| self.block(at))
    }

    /// Notes that the block at this address holds an output of its span.
    pub fn set_output(&mut self, address: u64) {
        if self.get(address).is_some() {
            let at = self.find(address);
            self.entries[at].packed |= OUTPUT;
        }
    }

    /// All blocks with their addresses, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Block)> {
        let used = |at: &usize| self.entries[*at].address != 0;
        (0..self.entries.len()).filter(used).map(|at| (self.entries[at].address, self.block(at)))
    }

    /// Asks the processor for the cache line of this address.
    #[inline(always)]
    pub fn prefetch(&self, address: u64) {
        if self.most > 0 {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let home = self.home(address);
            // A removal looks at the entry behind, which half the time lies on the next line.
            for entry in [self.entry(home), self.entry(self.after(home))] {
                // SAFETY: SSE is part of x86-64, and a prefetch accesses nothing.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(entry).cast()) };
            }
        }
    }

    /// Where an address would be if nothing stood there (multiplicative hashing, Knuth, volume 3, 6.4). The table is
    /// not empty; its length is a power of two.
    #[inline(always)]
    fn home(&self, address: u64) -> usize {
        ((address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.entries.len() - 1)
    }

    /// Where an address is, or the empty entry where it belongs.
    #[inline(always)]
    fn find(&self, address: u64) -> usize {
        let mut at = self.home(address);
        while self.entry(at).address != address && self.entry(at).address != 0 {
            at = self.after(at);
        }
        at
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }

    #[inline(always)]
    fn entry(&self, at: usize) -> &Entry {
        // SAFETY: `home` and `after` give places below the length, which is no 0 by then: everybody who asks has
        // seen that something is in the table, or that it has room.
        unsafe { self.entries.get_unchecked(at) }
    }

    #[inline(always)]
    fn entry_mut(&mut self, at: usize) -> &mut Entry {
        // SAFETY: as for `entry`.
        unsafe { self.entries.get_unchecked_mut(at) }
    }

    #[inline(always)]
    fn block(&self, at: usize) -> Block {
        let entry = self.entry(at);
        let in_span = entry.packed & IN_SPAN != 0;
        let (span, ordinal) = if in_span { self.places[at] } else { (0, 0) };
        Block {
            bytes: entry.packed & BYTES_MASK,
            alloc: entry.alloc,
            thread: entry.thread,
            span: in_span.then_some(span),
            ordinal,
            kind: KINDS[(entry.packed >> BYTES_BITS) as usize % KINDS.len()],
            site: Site::new(entry.site),
            output: entry.packed & OUTPUT != 0,
        }
    }

    /// Empties an entry: moves those behind it that would no longer be found.
    #[inline(always)]
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.entries.len() - 1;
        let mut at = self.after(gap);
        while self.entry(at).address != 0 {
            let entry = *self.entry(at);
            // It may move back to the gap unless its home lies between the two.
            if (at.wrapping_sub(self.home(entry.address)) & mask) >= (at.wrapping_sub(gap) & mask) {
                *self.entry_mut(gap) = entry;
                if entry.packed & IN_SPAN != 0 {
                    self.places[gap] = self.places[at];
                }
                gap = at;
            }
            at = self.after(at);
        }
        self.entry_mut(gap).address = 0;
    }

    #[cold]
    fn grow(&mut self) {
        let length = (self.entries.len() * 2).max(ENTRIES_MIN);
        let old = std::mem::take(self);
        self.entries = vec![Entry::default(); length];
        self.most = length / 8 * 3;
        for (address, block) in old.iter() {
            self.insert(address, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64, Block),
        Remove(u64),
        Output(u64),
    }

    fn addresses() -> impl Strategy<Value = u64> {
        // Few enough to meet again, some of them neighbours, some with the same hash.
        prop_oneof![1..60u64, (1..40u64).prop_map(|n| n << 35), any::<u64>()].prop_map(|n| n.max(1))
    }

    fn blocks() -> impl Strategy<Value = Block> {
        let place = (prop::option::of(any::<u32>()), any::<u32>(), any::<u32>(), any::<u32>());
        (0..=BYTES_MASK, any::<u64>(), place, 0..4usize).prop_map(
            |(bytes, alloc, (span, ordinal, thread, site), kind)| Block {
                bytes,
                alloc,
                thread,
                span,
                ordinal: span.map_or(0, |_| ordinal),
                kind: KINDS[kind],
                site: Site::new(site),
                output: false,
            },
        )
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (addresses(), blocks()).prop_map(|(address, block)| Step::Insert(address, block)),
            2 => addresses().prop_map(Step::Remove),
            1 => addresses().prop_map(Step::Output),
        ];
        prop::collection::vec(step, 1..400)
    }

    proptest! {
        #[test]
        fn is_a_map(steps in steps()) {
            let (mut blocks, mut map) = (Blocks::default(), HashMap::new());
            for step in steps {
                match step {
                    Step::Insert(address, block) => {
                        prop_assert_eq!(blocks.insert(address, block), map.insert(address, block));
                    }
                    Step::Remove(address) => prop_assert_eq!(blocks.remove(address), map.remove(&address)),
                    Step::Output(address) => {
                        blocks.set_output(address);
                        map.entry(address).and_modify(|block| block.output = true);
                    }
                }
                prop_assert_eq!(blocks.used, map.len());
            }
            for (address, block) in &map {
                prop_assert_eq!(blocks.get(*address), Some(*block));
                blocks.prefetch(*address);
            }
            let all: HashMap<u64, Block> = blocks.iter().collect();
            prop_assert_eq!(all, map);
        }
    }
}
