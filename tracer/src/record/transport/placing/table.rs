//! A plan as the table that probes follow ([`memtrace_wire::placement`]).

use std::collections::BTreeMap;

use memtrace_wire::placement::Tier;
use memtrace_wire::placement::moves::{Move, half_words};

use super::PlacedBlock;

/// The words of a table.
pub fn words(blocks: &[PlacedBlock], moves: &[(u32, Move)]) -> Vec<u64> {
    let mut sizes: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (position, block) in blocks.iter().enumerate() {
        sizes.entry(block.bytes).or_default().push(position);
    }
    let mut words = vec![sizes.len() as u64];
    let mut first = 0;
    for (bytes, positions) in &sizes {
        words.extend([*bytes, first, positions.len() as u64]);
        first += positions.len() as u64;
    }
    let order: Vec<usize> = sizes.into_values().flatten().collect();
    let codes: Vec<u8> = order.iter().map(|position| blocks[*position].tier.map_or(0, Tier::code)).collect();
    words.extend(
        codes.chunks(8).map(|codes| codes.iter().rev().fold(0, |word, code| word << 8 | u64::from(*code))),
    );
    if !moves.is_empty() {
        let slots: Vec<u32> = order.iter().map(|position| blocks[*position].slot).collect();
        words.extend(half_words(&slots));
        words.extend(moves_of(&order, moves));
    }
    words
}

/// The ends of the moves of each block, and the moves.
fn moves_of(order: &[usize], moves: &[(u32, Move)]) -> Vec<u64> {
    let mut of_block: BTreeMap<usize, Vec<Move>> = BTreeMap::new();
    for (position, each) in moves {
        of_block.entry(*position as usize).or_default().push(*each);
    }
    let mut ends = Vec::with_capacity(order.len());
    let mut all: Vec<Move> = Vec::with_capacity(moves.len());
    for position in order {
        all.extend(of_block.get(position).into_iter().flatten());
        ends.push(all.len() as u32);
    }
    half_words(&ends).chain(all.iter().flat_map(|each| each.encode())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use memtrace_wire::placement::moves::Action;
    use memtrace_wire::placement::{Follower, Table};

    use super::*;

    #[test]
    fn a_table_is_followed_as_it_was_made() {
        let tiers = [None, Some(Tier::SmallPages), Some(Tier::HugePages), Some(Tier::Node(3))];
        let block = |n: usize| PlacedBlock { bytes: 100 - n as u64 % 7, tier: tiers[n % 4], slot: n as u32 };
        let blocks: Vec<_> = (0..51).map(block).collect();
        let out = |n: u32| (n, Move { slot: n, action: Action::Out, first: n, pages: 1 });
        let moves: Vec<_> = (0..51).flat_map(|n| std::iter::repeat_n(out(n), n as usize % 3)).collect();
        let words = words(&blocks, &moves);
        let table = Table::new(&words);
        let come: Vec<AtomicU32> = (0..table.sizes()).map(|_| AtomicU32::new(0)).collect();
        let follower = Follower::new(table, &come);
        for (n, block) in blocks.iter().enumerate() {
            let planned = follower.next(block.bytes).unwrap();
            assert_eq!((planned.tier, table.moves().slot(planned.place)), (block.tier, block.slot));
            let before: Vec<_> = table.moves().before(planned.place).collect();
            assert_eq!(before, vec![out(n as u32).1; n % 3]);
        }
        assert!(follower.next(100).is_none() && !follower.has_departed());
    }
}
