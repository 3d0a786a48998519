//! Which memory the large blocks of a program go to: a table behind the settings with the tier of the
//! n-th block of each size, as the program allocated them when it was recorded.
//!
//! A program allocates the same sizes in the same order each time, or nearly so: two threads take
//! turns, and a cache file that is not there yet changes what is allocated at the beginning. So the
//! order of sizes among each other has no meaning. Where many blocks in a row are not in the table,
//! the program is another one, and [`Follower`] gives up.
//!
//! ```text
//! word 0               how many sizes there are
//! words 1, 2, 3 …      of each size: bytes; its first block's place among the tiers; how many there are.
//!                      Sorted by bytes
//! next                 tiers of blocks by their codes, eight to a word; 0: it is left alone
//! the rest             what is moved when ([`moves`]), if anything is
//! ```

pub mod moves;

use core::sync::atomic::{AtomicU32, Ordering};

use moves::{Action, Moves};

/// Smaller blocks are no matter of placement.
pub const LEAST_BYTES: u64 = 64 * 1024;
/// Blocks of a table, at most.
pub const MOST_BLOCKS: usize = 1 << 22;
/// Words of a table, at most: each block may have a size of its own.
pub const MOST_WORDS: usize = 1 + 3 * MOST_BLOCKS + MOST_BLOCKS / 8 + moves::MOST_WORDS;
/// Blocks in a row that are not in the table: another program.
const MOST_MISSES: u32 = 64;
/// Words of a size.
const SIZE_WORDS: usize = 3;

/// A kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// Pages of the smallest size.
    SmallPages,
    /// Pages of 2 MiB, as far as a block is aligned to them.
    HugePages,
    /// Whatever pages the program gets without a plan; they may be moved to swap and back.
    Dram,
    /// The memory of a NUMA node, below [`Tier::NODES`].
    Node(u8),
}

impl Tier {
    /// Nodes that can be named.
    pub const NODES: u8 = 128;
    const FIRST_NODE: u8 = 128;

    /// A number that is not 0.
    pub const fn code(self) -> u8 {
        match self {
            Tier::SmallPages => 1,
            Tier::HugePages => 2,
            Tier::Dram => 3,
            Tier::Node(node) => Tier::FIRST_NODE | node,
        }
    }

    /// The tier with this code.
    pub const fn from_code(code: u8) -> Option<Tier> {
        match code {
            1 => Some(Tier::SmallPages),
            2 => Some(Tier::HugePages),
            3 => Some(Tier::Dram),
            node if node >= Tier::FIRST_NODE => Some(Tier::Node(node - Tier::FIRST_NODE)),
            _ => None,
        }
    }
}

/// What becomes of blocks, as part of the settings.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placement {
    /// How many words the table has.
    pub words: u64,
    /// Without a table: the code of the tier that all blocks go to, or 0.
    pub all: u64,
    /// Code of the fast tier.
    pub fast: u64,
    /// Code of the tier between the fast and the slow one, if there is one; or 0. Blocks get it that do
    /// not fit into the fast one.
    pub middle: u64,
    /// Code of the slow tier, if blocks get it that fit into no other, and pages that are moved out go
    /// there; or 0.
    pub slow: u64,
    /// Bytes of the fast tier that may be mapped at a time.
    pub most: u64,
    /// Bytes of the middle tier that may be mapped at a time.
    pub most_middle: u64,
    /// 1: say which blocks are used between one allocation and the next.
    pub watch: u64,
}

/// What was done, as the last word of an event has it: tier's code | action's code << 8 | errno << 16 |
/// microseconds << 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Where the block is.
    pub tier: Option<Tier>,
    /// What became of its pages; `None`: it was allocated.
    pub action: Option<Action>,
    /// Of what the kernel refused, or 0.
    pub errno: i32,
    /// How long it took.
    pub micros: u32,
}

impl Done {
    /// As a word.
    pub fn encode(self) -> u64 {
        u64::from(self.tier.map_or(0, Tier::code))
            | u64::from(self.action.map_or(0, Action::code)) << 8
            | u64::from(self.errno as u16) << 16
            | u64::from(self.micros) << 32
    }

    /// From a word.
    pub fn decode(word: u64) -> Done {
        Done {
            tier: Tier::from_code(word as u8),
            action: Action::from_code((word >> 8) as u8),
            errno: i32::from((word >> 16) as u16),
            micros: (word >> 32) as u32,
        }
    }
}

/// A table, read with care.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    sizes: &'a [u64],
    tiers: &'a [u64],
    moves: Moves<'a>,
}

/// What the table has of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Its place among all blocks.
    pub place: usize,
    /// Where it goes; `None` if it is left alone.
    pub tier: Option<Tier>,
}

impl<'a> Table<'a> {
    /// A table of these words; without blocks if they are none.
    pub fn new(words: &'a [u64]) -> Table<'a> {
        let split = words.split_first().and_then(|(sizes, rest)| {
            let words = usize::try_from(*sizes).ok()?.checked_mul(SIZE_WORDS)?;
            rest.split_at_checked(words)
        });
        let (sizes, rest) = split.unwrap_or((&[], &[]));
        let blocks = sizes.last_chunk().map_or(0, |[_, first, count]| first.saturating_add(*count));
        let blocks = usize::try_from(blocks).unwrap_or(usize::MAX).min(MOST_BLOCKS);
        let (tiers, moves) = rest.split_at_checked(blocks.div_ceil(8)).unwrap_or((rest, &[]));
        Table { sizes, tiers, moves: Moves::new(moves, blocks) }
    }

    /// What is moved when.
    pub fn moves(&self) -> Moves<'a> {
        self.moves
    }

    /// How many sizes there are.
    pub fn sizes(&self) -> usize {
        self.sizes.len() / SIZE_WORDS
    }

    fn size(&self, index: usize) -> Option<[u64; SIZE_WORDS]> {
        self.sizes.get(index * SIZE_WORDS..)?.first_chunk().copied()
    }

    /// Which of the sizes this one is.
    fn find(&self, bytes: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.sizes());
        while low < high {
            let middle = low + (high - low) / 2;
            let [found, ..] = self.size(middle)?;
            if found == bytes {
                return Some(middle);
            }
            (low, high) = if found < bytes { (middle + 1, high) } else { (low, middle) };
        }
        None
    }

    /// The n-th block of a size; `None` if there is no such block.
    fn block(&self, size: usize, n: u32) -> Option<Planned> {
        let [_, first, count] = self.size(size)?;
        let place = usize::try_from(first.checked_add(n.into()).filter(|_| u64::from(n) < count)?).ok()?;
        let word = self.tiers.get(place / 8)?;
        Some(Planned { place, tier: Tier::from_code((word >> (8 * (place % 8))) as u8) })
    }
}

/// A position in a table, which threads share. Where two of them are at it at a time, their blocks come
/// in either order.
#[derive(Debug)]
pub struct Follower<'a> {
    table: Table<'a>,
    /// Of each size, how many blocks have come.
    come: &'a [AtomicU32],
    misses: AtomicU32,
}

impl<'a> Follower<'a> {
    /// At the beginning: `come` has a zero for each size.
    pub const fn new(table: Table<'a>, come: &'a [AtomicU32]) -> Follower<'a> {
        Follower { table, come, misses: AtomicU32::new(0) }
    }

    /// True if the program is another one.
    pub fn has_departed(&self) -> bool {
        self.misses.load(Ordering::Relaxed) >= MOST_MISSES
    }

    /// The next block, which has this many bytes; `None` if it is none of the table's.
    pub fn next(&self, bytes: u64) -> Option<Planned> {
        if self.has_departed() {
            return None;
        }
        let planned = self.come(bytes);
        match planned {
            Some(_) => self.misses.store(0, Ordering::Relaxed),
            None => _ = self.misses.fetch_add(1, Ordering::Relaxed),
        }
        planned
    }

    fn come(&self, bytes: u64) -> Option<Planned> {
        let size = self.table.find(bytes)?;
        let come = self.come.get(size)?.fetch_add(1, Ordering::Relaxed);
        self.table.block(size, come)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// A table of sizes with the tiers of their blocks, sorted.
    fn table(sizes: &[(u64, &[u8])]) -> Vec<u64> {
        let mut words = std::vec![sizes.len() as u64];
        let mut codes: Vec<u8> = Vec::new();
        for (bytes, tiers) in sizes {
            words.extend([*bytes, codes.len() as u64, tiers.len() as u64]);
            codes.extend(*tiers);
        }
        words.extend(codes.chunks(8).map(|eight| {
            let mut word = [0; 8];
            word[..eight.len()].copy_from_slice(eight);
            u64::from_le_bytes(word)
        }));
        words
    }

    fn follow(words: &[u64], blocks: &[u64]) -> Vec<u8> {
        let table = Table::new(words);
        let come: Vec<AtomicU32> = (0..table.sizes()).map(|_| AtomicU32::new(0)).collect();
        let follower = Follower::new(table, &come);
        let code = |planned: Planned| planned.tier.map_or(0, Tier::code);
        blocks.iter().map(|bytes| follower.next(*bytes).map_or(0, code)).collect()
    }

    #[test]
    fn codes_are_read_again() {
        for tier in
            [Tier::SmallPages, Tier::HugePages, Tier::Dram, Tier::Node(0), Tier::Node(Tier::NODES - 1)]
        {
            assert_eq!(Tier::from_code(tier.code()), Some(tier));
        }
        assert_eq!((Tier::from_code(0), Tier::from_code(4)), (None, None));
    }

    #[test]
    fn sizes_may_take_turns_as_they_like() {
        let words = table(&[(10, &[1, 2, 1]), (20, &[2, 0, 2, 2, 2, 2, 2, 2, 129])]);
        assert_eq!(follow(&words, &[10, 20, 10, 20, 10]), [1, 2, 2, 0, 1]);
        assert_eq!(follow(&words, &[20, 20, 20, 10, 10, 10]), [2, 0, 2, 1, 2, 1]);
        assert_eq!(follow(&words, &[20; 10]), [2, 0, 2, 2, 2, 2, 2, 2, 129, 0]);
        assert_eq!(follow(&words, &[10, 15, 5, 30, 10]), [1, 0, 0, 0, 2]);
    }

    #[test]
    fn another_program_is_given_up() {
        let words = table(&[(10, &[1; 100])]);
        let table = Table::new(&words);
        let come = [AtomicU32::new(0)];
        let follower = Follower::new(table, &come);
        for _ in 0..MOST_MISSES - 1 {
            assert_eq!(follower.next(5), None);
        }
        assert_eq!(follower.next(10), Some(Planned { place: 0, tier: Some(Tier::SmallPages) }));
        for _ in 0..MOST_MISSES {
            assert!(!follower.has_departed());
            assert_eq!(follower.next(5), None);
        }
        assert!(follower.has_departed());
        assert_eq!(follower.next(10), None);
    }

    proptest! {
        #[test]
        fn any_words_are_a_table(
            words in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..20], 0..80),
            blocks in prop::collection::vec(0u64..20, 0..100),
        ) {
            follow(&words, &blocks);
        }
    }
}
