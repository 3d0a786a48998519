//! Which memory large blocks of which program go to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use memtrace_wire::placement::{Placement, Tier};

/// What is placed where.
#[derive(Debug, Clone)]
pub enum Placing {
    /// All large blocks of all programs.
    All(Tier),
    /// Those of one program, by a table.
    Table {
        /// Whose blocks.
        program: PlacedProgram,
        /// Its large blocks in the order in which it allocates them: bytes, and tier unless it is left
        /// alone.
        blocks: Vec<(u64, Option<Tier>)>,
        /// The fast tier.
        fast: Tier,
        /// Bytes of it that may be mapped at a time.
        most: u64,
    },
}

/// A program that a recording executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedProgram {
    /// Its file, as /proc/PID/exe names it.
    pub path: PathBuf,
    /// How many times the file is executed before, in the same recording.
    pub before: u32,
}

impl Placing {
    /// In words.
    pub fn described(&self) -> String {
        match self {
            Placing::All(tier) => format!("all blocks in {}", tier_name(*tier)),
            Placing::Table { blocks, fast, .. } => {
                format!("{} blocks planned, {} is fast", blocks.len(), tier_name(*fast))
            }
        }
    }

    /// As the settings have it, with a table of so many words.
    pub fn settings(&self, words: usize) -> Placement {
        match self {
            Placing::All(tier) => Placement {
                all: tier.code().into(),
                fast: tier.code().into(),
                most: u64::MAX,
                ..Placement::default()
            },
            Placing::Table { fast, most, .. } => {
                Placement { words: words as u64, all: 0, fast: fast.code().into(), most: *most }
            }
        }
    }

    /// The words of the table ([`memtrace_wire::placement`]).
    pub fn table(&self) -> Vec<u64> {
        match self {
            Placing::All(_) => Vec::new(),
            Placing::Table { blocks, .. } => table(blocks),
        }
    }
}

fn table(blocks: &[(u64, Option<Tier>)]) -> Vec<u64> {
    let mut sizes: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (bytes, tier) in blocks {
        sizes.entry(*bytes).or_default().push(tier.map_or(0, Tier::code));
    }
    let mut words = vec![sizes.len() as u64];
    let mut first = 0;
    for (bytes, codes) in &sizes {
        words.extend([*bytes, first, codes.len() as u64]);
        first += codes.len() as u64;
    }
    let codes: Vec<u8> = sizes.into_values().flatten().collect();
    words.extend(
        codes.chunks(8).map(|codes| codes.iter().rev().fold(0, |word, code| word << 8 | u64::from(*code))),
    );
    words
}

/// A tier, as the command line, tables and plans name it.
pub fn tier_name(tier: Tier) -> String {
    match tier {
        Tier::SmallPages => "small-pages".into(),
        Tier::HugePages => "huge-pages".into(),
        Tier::Node(node) => format!("node:{node}"),
    }
}

/// Images in which blocks are placed, as they say hello.
pub struct PlacedImages {
    which: Which,
    seen: AtomicU32,
}

enum Which {
    None,
    All,
    One(PlacedProgram),
}

impl PlacedImages {
    /// Those that are wanted.
    pub fn of(placing: Option<&Placing>) -> PlacedImages {
        let which = match placing {
            None => Which::None,
            Some(Placing::All(_)) => Which::All,
            Some(Placing::Table { program, .. }) => Which::One(program.clone()),
        };
        PlacedImages { which, seen: AtomicU32::new(0) }
    }

    /// True if blocks of the image that says hello are to be placed. Ask once for each.
    pub fn has(&self, pid: u32) -> bool {
        match &self.which {
            Which::None => false,
            Which::All => true,
            Which::One(program) => {
                let path = std::fs::read_link(format!("/proc/{pid}/exe"));
                path.is_ok_and(|path| path == program.path)
                    && self.seen.fetch_add(1, Ordering::Relaxed) == program.before
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use memtrace_wire::placement::{Follower, Table};

    use super::*;

    #[test]
    fn a_table_is_followed_as_it_was_made() {
        let tiers = [None, Some(Tier::SmallPages), Some(Tier::HugePages), Some(Tier::Node(3))];
        let blocks: Vec<_> = (0..50).map(|n| (100 - n % 7, tiers[n as usize % 4])).collect();
        let words = table(&blocks);
        let come: Vec<AtomicU32> = (0..Table::new(&words).sizes()).map(|_| AtomicU32::new(0)).collect();
        let follower = Follower::new(Table::new(&words), &come);
        for (bytes, tier) in blocks {
            assert_eq!(follower.next(bytes), tier);
        }
        assert!(follower.next(100).is_none() && !follower.has_departed());
    }
}
