//! Objects that are live together.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::observed::Block;

/// Members of all sets of objects that are live together, at most. Of a program with more, the others
/// have no part in the choice: where they do not fit, blocks are left alone when it runs.
const MOST_MEMBERS: usize = 4_000_000;

/// Objects that are live together: each time at which none could be added, once.
pub fn together(blocks: &[Block]) -> Vec<Vec<usize>> {
    let begin = blocks.iter().map(|block| (block.alloc_ns, true, block.object));
    let end = blocks.iter().filter_map(|block| Some((block.free_ns?, false, block.object)));
    let mut events: Vec<(i64, bool, usize)> = begin.chain(end).collect();
    // What is released at a time makes room for what is allocated then.
    events.sort_unstable();
    let (mut live, mut sets) = (BTreeSet::new(), Sets::default());
    let mut grew = false;
    for (_, begins, object) in events {
        if begins {
            live.insert(object);
        } else {
            if grew {
                sets.note(&live);
            }
            live.remove(&object);
        }
        grew = begins;
    }
    if grew {
        sets.note(&live);
    }
    sets.sets
}

#[derive(Default)]
struct Sets {
    sets: Vec<Vec<usize>>,
    seen: HashSet<u64>,
    members: usize,
}

impl Sets {
    fn note(&mut self, live: &BTreeSet<usize>) {
        let mut hash = DefaultHasher::new();
        live.hash(&mut hash);
        if self.members + live.len() <= MOST_MEMBERS && self.seen.insert(hash.finish()) {
            self.members += live.len();
            self.sets.push(live.iter().copied().collect());
        }
    }
}
