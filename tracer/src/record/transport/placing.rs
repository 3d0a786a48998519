//! Which memory large blocks of which program go to.

mod table;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use memtrace_wire::placement::moves::Move;
use memtrace_wire::placement::{Placement, Tier};

/// What is placed where.
#[derive(Debug, Clone)]
pub enum Placing {
    /// All large blocks of all programs.
    All {
        /// Where they go.
        tier: Tier,
        /// Whether it is recorded which of them are used when.
        watch: bool,
    },
    /// Those of one program, by a table.
    Table {
        /// Whose blocks.
        program: PlacedProgram,
        /// Its large blocks in the order in which it allocates them.
        blocks: Vec<PlacedBlock>,
        /// What is moved before which block is allocated (its position), sorted.
        moves: Vec<(u32, Move)>,
        /// Where blocks go that fit into no other tier, and pages that are moved out, if that is a node.
        slow: Option<Tier>,
        /// The tier between the fast and the slow one, and the bytes of it that may be mapped at a time.
        middle: Option<(Tier, u64)>,
        /// The fast tier.
        fast: Tier,
        /// Bytes of it that may be mapped at a time.
        most: u64,
    },
}

/// A block that a plan knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedBlock {
    /// Its size.
    pub bytes: u64,
    /// Where it goes, unless it is left alone.
    pub tier: Option<Tier>,
    /// Where its moves find it; 0: it is never moved.
    pub slot: u32,
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
            Placing::All { tier, .. } => format!("all blocks in {}", tier_name(*tier)),
            Placing::Table { blocks, fast, .. } => {
                format!("{} blocks planned, {} is fast", blocks.len(), tier_name(*fast))
            }
        }
    }

    /// As the settings have it, with a table of so many words.
    pub fn settings(&self, words: usize) -> Placement {
        match self {
            Placing::All { tier, watch } => Placement {
                all: tier.code().into(),
                fast: tier.code().into(),
                most: u64::MAX,
                watch: (*watch).into(),
                ..Placement::default()
            },
            Placing::Table { slow, middle, fast, most, .. } => Placement {
                words: words as u64,
                fast: fast.code().into(),
                middle: middle.map_or(0, |(tier, _)| tier.code()).into(),
                slow: slow.map_or(0, Tier::code).into(),
                most: *most,
                most_middle: middle.map_or(0, |(_, most)| most),
                ..Placement::default()
            },
        }
    }

    /// The words of the table ([`memtrace_wire::placement`]).
    pub fn table(&self) -> Vec<u64> {
        match self {
            Placing::All { .. } => Vec::new(),
            Placing::Table { blocks, moves, .. } => table::words(blocks, moves),
        }
    }
}

/// A tier, as the command line, tables and plans name it.
pub fn tier_name(tier: Tier) -> String {
    match tier {
        Tier::SmallPages => "small-pages".into(),
        Tier::HugePages => "huge-pages".into(),
        Tier::Dram => "dram".into(),
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
            Some(Placing::All { .. }) => Which::All,
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
