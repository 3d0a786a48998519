//! What is moved to the slow tier and back when: the part of a table behind its tiers.
//!
//! A block is the block of an object, of which one is live at a time: the object's slot says where it
//! is. When a block is about to be allocated, its moves are made. Of a block whose pages move between
//! nodes, the first pages are those in the fast one.
//!
//! ```text
//! slots of blocks        two to a word; 0: it is never moved
//! ends of their moves    two to a word: block n has those from the end of block n − 1 to its own
//! moves, two words each  slot | action << 32, first page | pages << 32
//! ```

/// Moves of a table, at most.
pub const MOST_MOVES: usize = 1 << 20;
/// Slots of a table, at most.
pub const MOST_SLOTS: u32 = 1 << 16;
/// Words of this part, at most.
pub const MOST_WORDS: usize = super::MOST_BLOCKS + 2 * MOST_MOVES;

/// What is done with pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// They go to the slow tier: a node, or swap.
    Out,
    /// They come to the fast tier.
    In,
    /// So many pages of released blocks, which are retained for others, are released.
    Trim,
}

impl Action {
    /// A number that is not 0.
    pub const fn code(self) -> u8 {
        match self {
            Action::Out => 1,
            Action::In => 2,
            Action::Trim => 3,
        }
    }

    /// The action with this code.
    pub const fn from_code(code: u8) -> Option<Action> {
        match code {
            1 => Some(Action::Out),
            2 => Some(Action::In),
            3 => Some(Action::Trim),
            _ => None,
        }
    }
}

/// A move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Of the block in this slot; counted from 1.
    pub slot: u32,
    /// What is done.
    pub action: Action,
    /// From this page of the block on.
    pub first: u32,
    /// So many pages.
    pub pages: u32,
}

impl Move {
    /// As words.
    pub fn encode(self) -> [u64; 2] {
        let words = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [words(self.slot, self.action.code().into()), words(self.first, self.pages)]
    }

    fn decode([what, pages]: [u64; 2]) -> Option<Move> {
        let action = Action::from_code(u8::try_from(what >> 32).ok()?)?;
        Some(Move { slot: what as u32, action, first: pages as u32, pages: (pages >> 32) as u32 })
    }
}

/// Moves, read with care.
#[derive(Debug, Clone, Copy)]
pub struct Moves<'a> {
    slots: &'a [u64],
    ends: &'a [u64],
    moves: &'a [u64],
}

impl<'a> Moves<'a> {
    /// Those of a table of so many blocks; none if the words are not enough.
    pub(super) fn new(words: &'a [u64], blocks: usize) -> Moves<'a> {
        let half = blocks.div_ceil(2);
        let split = words.split_at_checked(half).and_then(|(slots, rest)| {
            let (ends, moves) = rest.split_at_checked(half)?;
            Some(Moves { slots, ends, moves })
        });
        split.unwrap_or(Moves { slots: &[], ends: &[], moves: &[] })
    }

    /// True if nothing is ever moved.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// The slot of a block; 0 if it is never moved.
    pub fn slot(&self, place: usize) -> u32 {
        half_word(self.slots, place).unwrap_or(0)
    }

    /// What is moved before a block is allocated.
    pub fn before(&self, place: usize) -> impl Iterator<Item = Move> + use<'a> {
        let begin = place.checked_sub(1).map_or(0, |before| half_word(self.ends, before).unwrap_or(0));
        let end = half_word(self.ends, place).unwrap_or(0);
        let words = self.moves.get(2 * begin as usize..2 * end as usize).unwrap_or(&[]);
        words.chunks_exact(2).filter_map(|words| Move::decode(*words.first_chunk()?))
    }
}

/// A number of 32 bits among words that have two of them each.
fn half_word(words: &[u64], index: usize) -> Option<u32> {
    Some((words.get(index / 2)? >> (32 * (index % 2))) as u32)
}

/// Numbers of 32 bits as words.
pub fn half_words(numbers: &[u32]) -> impl Iterator<Item = u64> {
    numbers.chunks(2).map(|two| u64::from(two[0]) | two.get(1).map_or(0, |second| u64::from(*second) << 32))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn moves_are_read_again() {
        let all = [
            Move { slot: 1, action: Action::Out, first: 0, pages: 7 },
            Move { slot: 0, action: Action::Trim, first: 0, pages: 0 },
            Move { slot: MOST_SLOTS, action: Action::In, first: u32::MAX, pages: u32::MAX },
        ];
        let mut words: Vec<u64> = half_words(&[0, 1, MOST_SLOTS]).collect();
        words.extend(half_words(&[0, 1, 3]));
        words.extend(all.iter().flat_map(|each| each.encode()));
        let moves = Moves::new(&words, 3);
        assert_eq!([0, 1, 2, 3].map(|place| moves.slot(place)), [0, 1, MOST_SLOTS, 0]);
        let before = |place| moves.before(place).collect::<Vec<_>>();
        assert_eq!((before(0), before(1), before(2)), (Vec::new(), all[..1].to_vec(), all[1..].to_vec()));
        assert_eq!(before(3), []);
    }

    proptest! {
        #[test]
        fn any_words_are_moves(
            words in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..9, Just(3 << 32 | 2)], 0..60),
            blocks in 0usize..20,
        ) {
            let moves = Moves::new(&words, blocks);
            for place in 0..blocks + 2 {
                moves.slot(place);
                prop_assert!(moves.before(place).count() <= words.len());
            }
        }
    }
}
