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
//! the rest             tiers of blocks by their codes, eight to a word; 0: it is left alone
//! ```

use core::sync::atomic::{AtomicU32, Ordering};

/// Smaller blocks are no matter of placement.
pub const LEAST_BYTES: u64 = 64 * 1024;
/// Blocks of a table, at most.
pub const MOST_BLOCKS: usize = 1 << 22;
/// Words of a table, at most: each block may have a size of its own.
pub const MOST_WORDS: usize = 1 + 3 * MOST_BLOCKS + MOST_BLOCKS / 8;
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
            Tier::Node(node) => Tier::FIRST_NODE | node,
        }
    }

    /// The tier with this code.
    pub const fn from_code(code: u8) -> Option<Tier> {
        match code {
            1 => Some(Tier::SmallPages),
            2 => Some(Tier::HugePages),
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
    /// Bytes of the fast tier that may be mapped at a time.
    pub most: u64,
}

/// A table, read with care.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    sizes: &'a [u64],
    tiers: &'a [u64],
}

impl<'a> Table<'a> {
    /// A table of these words; without blocks if they are none.
    pub fn new(words: &'a [u64]) -> Table<'a> {
        let split = words.split_first().and_then(|(sizes, rest)| {
            let words = usize::try_from(*sizes).ok()?.checked_mul(SIZE_WORDS)?;
            rest.split_at_checked(words)
        });
        let (sizes, tiers) = split.unwrap_or((&[], &[]));
        Table { sizes, tiers }
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

    /// The code of the tier of the n-th block of a size; `None` if there is no such block.
    fn code(&self, size: usize, n: u32) -> Option<u8> {
        let [_, first, count] = self.size(size)?;
        let place = usize::try_from(first.checked_add(n.into()).filter(|_| u64::from(n) < count)?).ok()?;
        let word = self.tiers.get(place / 8)?;
        Some((word >> (8 * (place % 8))) as u8)
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

    /// The tier of the next block, which has this many bytes; `None` if it is left alone.
    pub fn next(&self, bytes: u64) -> Option<Tier> {
        if self.has_departed() {
            return None;
        }
        let Some(code) = self.next_code(bytes) else {
            self.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.misses.store(0, Ordering::Relaxed);
        Tier::from_code(code)
    }

    fn next_code(&self, bytes: u64) -> Option<u8> {
        let size = self.table.find(bytes)?;
        let come = self.come.get(size)?.fetch_add(1, Ordering::Relaxed);
        self.table.code(size, come)
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
        blocks.iter().map(|bytes| follower.next(*bytes).map_or(0, Tier::code)).collect()
    }

    #[test]
    fn codes_are_read_again() {
        for tier in [Tier::SmallPages, Tier::HugePages, Tier::Node(0), Tier::Node(Tier::NODES - 1)] {
            assert_eq!(Tier::from_code(tier.code()), Some(tier));
        }
        assert_eq!((Tier::from_code(0), Tier::from_code(3)), (None, None));
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
        assert_eq!(follower.next(10), Some(Tier::SmallPages));
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
