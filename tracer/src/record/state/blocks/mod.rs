//! The live heap blocks of one process, by address.
//!
//! Millions of blocks come and go each second at addresses that seem random, so what counts is
//! cache lines and branches that cannot be predicted. Blocks are numbered ([`slab`](self::slab)),
//! and numbers are found by address without searching: as in a page table ([`dense`](self::dense)),
//! because allocators put their blocks next to each other. A caller that knows what comes next
//! prefetches its lines ([`Blocks::expect`], [`Blocks::expect_soon`]).

mod dense;
mod memory;
mod slab;

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use memtrace_trace::rows::Kind;
use rustc_hash::FxHashMap;

use self::dense::Dense;
use self::slab::Slab;

/// The call stack that memory was allocated at: its number among the sites of the recording, plus
/// one.
pub type Site = NonZeroU32;

/// A live heap block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Requested bytes.
    pub bytes: u64,
    /// Stamp of the acquire.
    pub alloc: u64,
    /// The thread that allocated it.
    pub thread: u32,
    /// Innermost span, if any.
    pub span: Option<u32>,
    /// Position among the blocks of its kind in that span.
    pub ordinal: u32,
    /// Which call made it.
    pub kind: Kind,
    /// Where it was allocated, if that is known.
    pub site: Option<Site>,
    /// What spans have made of it.
    pub part: Part,
}

#[cfg(test)]
impl Block {
    /// A block of the first thread, outside of all spans and without a site.
    pub fn plain(bytes: u64, alloc: u64) -> Block {
        let kind = Kind::Malloc;
        Block { bytes, alloc, thread: 0, span: None, ordinal: 0, kind, site: None, part: Part::None }
    }
}

/// What a block contains, as far as spans have reported; an output stays one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Part {
    /// Nothing that a span named.
    #[default]
    None,
    /// An input of a span.
    Input,
    /// An output of the span it was allocated in, or of one around that.
    Output,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Blocks {
    slab: Slab,
    dense: Dense,
    /// Those that lie far apart, or at addresses that few allocators give.
    others: FxHashMap<u64, u32>,
    /// The addresses of `others` in order, if blocks are to be found by any address in them
    /// ([`Blocks::keep_order`]).
    ordered: Option<BTreeSet<u64>>,
}

/// Blocks of this size and more are no neighbours: what [`Dense`] has for each KiB would be for
/// them only.
const LARGE: u64 = 16 << 10;

impl Blocks {
    /// Adds a block. Returns the one that was at this address. (Nothing is at address 0.)
    #[inline(always)]
    pub fn insert(&mut self, address: u64, block: Block) -> Option<Block> {
        let is_dense = Dense::holds(address) && block.bytes < LARGE;
        if !is_dense || !self.others.is_empty() {
            if let Some(number) = self.number(address) {
                return Some(self.slab.replace(number, address, block));
            }
            if !is_dense {
                return self.insert_other(address, block);
            }
        }
        let number = self.dense.entry(address);
        if *number != 0 {
            return Some(self.slab.replace(*number, address, block));
        }
        *number = self.slab.add(address, block);
        None
    }

    #[cold]
    fn insert_other(&mut self, address: u64, block: Block) -> Option<Block> {
        if address != 0 {
            self.others.insert(address, self.slab.add(address, block));
            self.ordered.as_mut().map(|ordered| ordered.insert(address));
        }
        None
    }

    /// Takes the block at this address out.
    #[inline(always)]
    pub fn remove(&mut self, address: u64) -> Option<Block> {
        let dense = if Dense::holds(address) { self.dense.take(address) } else { None };
        let number = dense.or_else(|| self.remove_other(address))?;
        Some(self.slab.remove(number))
    }

    #[cold]
    fn remove_other(&mut self, address: u64) -> Option<u32> {
        let number = self.others.remove(&address)?;
        self.ordered.as_mut().map(|ordered| ordered.remove(&address));
        Some(number)
    }

    /// From now on large blocks are found by any address in them.
    pub fn keep_order(&mut self) {
        self.ordered.get_or_insert_with(|| self.others.keys().copied().collect());
    }

    /// The block that an address lies in, and where it begins; large ones only after
    /// [`Blocks::keep_order`].
    pub fn around(&self, address: u64) -> Option<(u64, Block)> {
        let small = self.dense.last_before(address, LARGE);
        let large = || {
            let start = self.ordered.as_ref()?.range(..=address).next_back()?;
            self.others.get(start).copied()
        };
        let covers = |number: &u32| {
            let bytes = self.slab.get(*number).bytes;
            address - self.slab.address(*number) < bytes
        };
        let number = small.filter(covers).or_else(|| large().filter(covers))?;
        Some((self.slab.address(number), self.slab.get(number)))
    }

    /// The block at this address.
    pub fn get(&self, address: u64) -> Option<Block> {
        self.number(address).map(|number| self.slab.get(number))
    }

    /// Notes what the block at this address contains.
    pub fn set_part(&mut self, address: u64, part: Part) {
        if let Some(number) = self.number(address) {
            self.slab.set_part(number, part);
        }
    }

    /// All blocks with their addresses, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Block)> {
        self.slab.iter()
    }

    /// Prefetches the number of the block at this address.
    #[inline(always)]
    pub fn expect(&self, address: u64) {
        self.dense.prefetch(address);
    }

    /// Prefetches the block at this address; better if it was [expected](Blocks::expect).
    #[inline(always)]
    pub fn expect_soon(&self, address: u64) {
        self.slab.prefetch(self.dense.get(address).unwrap_or(0));
    }

    fn number(&self, address: u64) -> Option<u32> {
        let dense = if Dense::holds(address) { self.dense.get(address) } else { None };
        dense.or_else(|| self.others.get(&address).copied())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::slab::KINDS;
    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64, Block),
        Remove(u64),
        Part(u64, Part),
    }

    fn addresses() -> impl Strategy<Value = u64> {
        // Few enough to meet again: neighbours, aligned and not, in the same table or in different
        // ones.
        let aligned = prop_oneof![(1..300u64).prop_map(|n| n << 4), (1..40u64).prop_map(|n| n << 31)];
        prop_oneof![1..60u64, aligned, any::<u64>()].prop_map(|n| n.max(1))
    }

    fn blocks() -> impl Strategy<Value = Block> {
        let place = (prop::option::of(any::<u32>()), any::<u32>(), any::<u32>(), any::<u32>());
        (sizes(), any::<u64>(), place, 0..4usize).prop_map(
            |(bytes, alloc, (span, ordinal, thread, site), kind)| Block {
                bytes,
                alloc,
                thread,
                span,
                ordinal: span.map_or(0, |_| ordinal),
                kind: KINDS[kind],
                site: Site::new(site),
                part: Part::None,
            },
        )
    }

    fn sizes() -> impl Strategy<Value = u64> {
        prop_oneof![0..2 * LARGE, 0..=slab::BYTES_MASK]
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (addresses(), blocks()).prop_map(|(address, block)| Step::Insert(address, block)),
            2 => addresses().prop_map(Step::Remove),
            1 => (addresses(), any::<bool>()).prop_map(|(address, input)| {
                Step::Part(address, if input { Part::Input } else { Part::Output })
            }),
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
                    Step::Part(address, part) => {
                        blocks.set_part(address, part);
                        map.entry(address).and_modify(|block| block.part = block.part.max(part));
                    }
                }
                prop_assert_eq!(blocks.iter().count(), map.len());
            }
            for (address, block) in &map {
                prop_assert_eq!(blocks.get(*address), Some(*block));
                blocks.expect(*address);
                blocks.expect_soon(*address);
            }
            let all: HashMap<u64, Block> = blocks.iter().collect();
            prop_assert_eq!(all, map);
        }

        /// Blocks side by side, some with gaps between them: each is found by its bytes, and by no
        /// others.
        #[test]
        fn a_block_is_found_by_each_of_its_bytes(
            sizes in prop::collection::vec((sizes().prop_map(|bytes| bytes % (4 * LARGE)), 0..64u64, any::<bool>()), 1..60),
            start in 1..1u64 << 40,
            inside in any::<u64>(),
        ) {
            let mut blocks = Blocks::default();
            blocks.keep_order();
            let mut address = start << 4;
            let mut placed = Vec::new();
            for (bytes, gap, kept) in sizes {
                blocks.insert(address, Block::plain(bytes, 1));
                if !kept {
                    blocks.remove(address);
                }
                placed.push((address, bytes, kept));
                address = (address + bytes.max(1)).next_multiple_of(16) + 16 * gap;
            }
            for (address, bytes, kept) in placed {
                let found = |at| blocks.around(at).map(|(start, block)| (start, block.bytes));
                let expected = (kept && bytes > 0).then_some((address, bytes));
                prop_assert_eq!(found(address + inside % bytes.max(1)), expected);
                prop_assert_eq!(found(address + bytes.saturating_sub(1)), expected);
                let behind = (address + bytes.max(1)).next_multiple_of(16) - 1;
                if behind >= address + bytes {
                    prop_assert_eq!(found(behind), None);
                }
            }
        }
    }
}
