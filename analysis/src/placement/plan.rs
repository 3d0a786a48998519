//! Plans of placement: JSON, read with suspicion, written whole or not at all.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::file;
use super::object::{Object, Where};
use super::observed::Block;
use super::search::{Baseline, Instance, SEED};

/// Version of the file.
pub const PLAN_VERSION: u32 = 4;
/// In the notes on why a plan is not carried out.
pub(super) const NOTHING: &str = "nothing is placed";
/// In the note on what makes any estimate of a program uncertain.
pub(super) const CHAINS: &str = "chains of pointers";
/// No run takes that long: their sums are numbers.
const MOST_SECONDS: f64 = 1e12;
/// Larger files are refused.
const MOST_FILE_BYTES: u64 = 256 << 20;
/// More blocks have no room in the table that the program follows.
pub const MOST_BLOCKS: usize = 1 << 22;
/// More moves have no room in it, either.
pub const MOST_MOVES: usize = 1 << 20;

/// What one run differs from the next by, as a share of its time: standard deviation, of short programs on an idle
/// machine.
pub(super) const RUN_ERROR: f64 = 0.03;

/// Which objects of a program belong in fast memory, and what that gains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_VERSION`] of the writer.
    pub plan_version: u32,
    /// Whose blocks.
    pub program: Program,
    /// The two tiers; with a middle one, the slowest and the fastest.
    pub tiers: Tiers,
    /// The tier between them; null if there is none.
    pub middle: Option<Middle>,
    /// Bytes of the fast tier.
    pub fast_bytes: u64,
    /// What of them the plan uses at most at one time; after objects were moved, if all are live
    /// together.
    pub used_bytes: u64,
    /// CPU seconds of the command.
    pub seconds: Seconds,
    /// What goes to swap and comes back; null for other tiers.
    pub traffic: Option<Traffic>,
    /// True if the program is to be placed; else nothing is done to it.
    pub worth: bool,
    /// Sentences on what the plan does, or why it does nothing, and on what makes it uncertain.
    pub notes: Vec<String>,
    /// Large blocks by call stack, size and ordinal, those that gain most first.
    pub objects: Vec<Object>,
    /// The program's large blocks in the order of their allocation: how many follow each other of
    /// which object (its position in `objects`).
    pub blocks: Vec<(u32, u32)>,
    /// What goes to the slow tier and comes back, in this order. `place plan` makes them where that is
    /// swap; between two nodes, those that are written here are made, too.
    pub moves: Vec<Move>,
    /// Other placements for as many bytes, to compare the plan with; empty of swap.
    pub alternatives: Vec<Alternative>,
}

/// A placement that needs no estimate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// How the fast tier is filled.
    pub by: Baseline,
    /// What is fast (positions in `objects`).
    pub fast: Vec<u32>,
    /// What of the fast tier it uses at most at one time.
    pub used_bytes: u64,
    /// What is in the middle tier, of what the fast one has no room for; empty without one.
    pub middle: Vec<u32>,
    /// What of the middle tier it uses at most at one time.
    pub middle_used_bytes: u64,
}

impl Alternative {
    /// That of a baseline. The middle tier has so many bytes; 0 if there is none.
    pub(super) fn of(by: Baseline, instance: &Instance, middle_bytes: u64) -> Alternative {
        let fast = by.choice(instance, SEED);
        let (rest, left) = instance.rest(&fast, middle_bytes);
        let middle = by.choice(&rest, SEED);
        let chosen = |choice: &[bool]| -> Vec<u32> {
            (0..choice.len()).filter(|object| choice[*object]).map(|object| object as u32).collect()
        };
        Alternative {
            by,
            used_bytes: instance.used(&fast),
            fast: chosen(&fast),
            middle_used_bytes: rest.used(&middle),
            middle: chosen(&middle).into_iter().map(|object| left[object as usize] as u32).collect(),
        }
    }
}

/// A tier that is slower than the fast one and faster than the slow one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Middle {
    /// As the command line names it.
    pub tier: String,
    /// Bytes of it.
    pub bytes: u64,
    /// What of them the plan uses at most at one time; after objects were moved, if all are live
    /// together.
    pub used_bytes: u64,
    /// CPU seconds of the command, measured with all large blocks in it.
    pub seconds: f64,
}

/// Pages that are moved just before a block is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// Before which block: its position in the order of their allocation.
    pub block: u32,
    /// What is done.
    pub kind: MoveKind,
    /// With the live block of which object (its position in `objects`).
    pub object: u32,
    /// From this page on.
    pub first: u32,
    /// So many pages.
    pub pages: u32,
}

/// What is done with pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MoveKind {
    /// They go to the slow tier. Between nodes these are the last pages of the block in the fast one.
    Out,
    /// They come to the fast tier. Between nodes they follow the pages that are there.
    In,
    /// So many pages of released blocks, which are retained for the next ones, are released.
    Trim,
}

impl Move {
    /// Releases so many pages of what is retained.
    pub(super) fn trim(block: usize, pages: u64) -> Move {
        Move { block: block as u32, kind: MoveKind::Trim, object: 0, first: 0, pages: pages as u32 }
    }
}

/// A program that a command executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its file.
    pub path: String,
    /// How many times the command executes the file before.
    pub before: u32,
    /// Its command line.
    pub command: String,
}

/// The tiers, as the command line names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tiers {
    /// Of which there is enough.
    pub slow: String,
    /// Of which there is little.
    pub fast: String,
}

/// CPU seconds of a command and its children.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Seconds {
    /// Measured with all large blocks in the slow tier, and corrected by runs that verified a plan.
    /// With swap: estimated, where the kernel chooses what goes there.
    pub slow: f64,
    /// Measured with all of them in the fast tier.
    pub fast: f64,
    /// Estimated of this plan.
    pub planned: f64,
    /// Half the width of its interval: the truth is within it in about 19 of 20 runs.
    pub uncertainty: f64,
}

/// Bytes that move between memory and swap, estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Where the kernel chooses what moves.
    pub kernel: Moved,
    /// By the plan.
    pub planned: Moved,
}

/// Bytes in each direction, all times together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// Written to swap: without pages that are still as they came from it.
    pub written_bytes: u64,
    /// Read back from it.
    pub back_bytes: u64,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::Malformed`] for anything that is no plan, or one of another version.
    pub fn load(path: &Path) -> Result<Plan, Error> {
        let malformed = |reason: String| Error::Malformed { path: path.to_owned(), reason };
        let plan: Plan = file::load(path, MOST_FILE_BYTES)?;
        plan.check().map_err(malformed)?;
        Ok(plan)
    }

    /// What objects gain where they are, CPU seconds, and the standard error of that.
    fn gained(&self) -> (f64, f64) {
        let each = self.objects.iter().map(|object| object.gained(object.tier));
        each.fold((0.0, 0.0), |(gain, error), object| {
            (gain + object.gain_seconds, error.hypot(object.gain_error_seconds))
        })
    }

    /// Estimates the plan anew, after objects have moved.
    pub fn estimate(&mut self) {
        let (gain, error) = self.gained();
        self.seconds.planned = self.seconds.slow - gain;
        self.seconds.uncertainty = 2.0 * error.hypot(RUN_ERROR * self.seconds.slow);
    }

    /// A run of the plan took so many seconds: that says whether it is worth it.
    pub fn took(&mut self, seconds: f64) {
        let was_worth = self.worth;
        let gain = self.seconds.slow - seconds;
        self.seconds.planned = seconds;
        self.worth = gain > self.seconds.uncertainty;
        if self.worth {
            self.notes.retain(|note| !note.contains(NOTHING));
        } else if was_worth {
            self.notes.push(format!("a run of it gained {gain:.2} s, less than runs differ by: {NOTHING}"));
        }
    }

    /// Estimates the plan anew after objects were moved by hand: it is done then, whatever it gains.
    pub fn moved(&mut self) {
        self.estimate();
        self.used_bytes = self.used(Where::Fast);
        let in_middle = self.used(Where::Middle);
        if let Some(middle) = &mut self.middle {
            middle.used_bytes = in_middle;
        }
        self.worth = true;
        // What was said of the choice is said of it no more.
        self.notes.retain(|note| note.contains(CHAINS));
        if self.used_bytes > self.fast_bytes || in_middle > self.middle.as_ref().map_or(0, |each| each.bytes)
        {
            let note = "where the objects of a tier do not fit together, the last of them go to a slower one";
            self.notes.push(note.into());
        }
    }

    /// Bytes of a tier, if all objects in it are live together.
    fn used(&self, tier: Where) -> u64 {
        let there = self.objects.iter().filter(|object| object.tier == tier);
        there.map(|object| object.bytes).fold(0, u64::saturating_add)
    }

    /// Object (its position), bytes and tier of each block, in the order of their allocation.
    pub fn table(&self) -> impl Iterator<Item = (u32, u64, Where)> {
        self.blocks.iter().flat_map(|(index, count)| {
            let object = &self.objects[*index as usize];
            std::iter::repeat_n((*index, object.bytes, object.tier), *count as usize)
        })
    }

    fn check(&self) -> Result<(), String> {
        if self.plan_version != PLAN_VERSION {
            return Err(format!("it has version {}, this memtrace reads {PLAN_VERSION}", self.plan_version));
        }
        let blocks: u64 = self.blocks.iter().map(|(_, count)| u64::from(*count)).sum();
        if blocks > MOST_BLOCKS as u64 {
            return Err(format!("it has {blocks} blocks, more than {MOST_BLOCKS}"));
        }
        if self.blocks.iter().any(|(object, _)| *object as usize >= self.objects.len()) {
            return Err("it has blocks of objects that it does not have".into());
        }
        self.check_moves(blocks)?;
        let mut compared = self.alternatives.iter().flat_map(|each| each.fast.iter().chain(&each.middle));
        if compared.any(|object| *object as usize >= self.objects.len()) {
            return Err("it compares itself with objects that it does not have".into());
        }
        if self.middle.is_none() && self.objects.iter().any(|object| object.tier == Where::Middle) {
            return Err("it has objects in a middle tier that it does not have".into());
        }
        self.check_times()
    }

    fn check_times(&self) -> Result<(), String> {
        let gains =
            self.objects.iter().flat_map(|each| [Where::Middle, Where::Fast].map(|tier| each.gained(tier)));
        let numbers = gains.flat_map(|each| [each.gain_seconds, each.gain_error_seconds]);
        let middle = self.middle.as_ref().map_or(0.0, |middle| middle.seconds);
        let is_time = |seconds: f64| seconds.abs() < MOST_SECONDS;
        let Seconds { slow, fast, planned, uncertainty } = self.seconds;
        if !numbers.chain([slow, middle, fast, planned, uncertainty]).all(is_time) {
            return Err("it has times that no run takes".into());
        }
        if !self.objects.iter().all(|object| (0.0..=1.0).contains(&object.time_share)) {
            return Err("it has shares of time below 0 or above 1".into());
        }
        Ok(())
    }

    fn check_moves(&self, blocks: u64) -> Result<(), String> {
        if self.moves.len() > MOST_MOVES {
            return Err(format!("it has {} moves, more than {MOST_MOVES}", self.moves.len()));
        }
        let is_known = |each: &Move| {
            u64::from(each.block) < blocks
                && (each.kind == MoveKind::Trim || (each.object as usize) < self.objects.len())
        };
        if !self.moves.iter().all(is_known) {
            return Err("it moves blocks that it does not have".into());
        }
        Ok(())
    }

    /// The plan with its objects where an alternative has them; `None` if it has no such one.
    pub fn alternative(&self, by: Baseline) -> Option<Plan> {
        let alternative = self.alternatives.iter().find(|each| each.by == by)?;
        let mut plan = self.clone();
        plan.objects.iter_mut().for_each(|object| object.tier = Where::Slow);
        alternative.fast.iter().for_each(|object| plan.objects[*object as usize].tier = Where::Fast);
        plan.used_bytes = alternative.used_bytes;
        if let Some(middle) = &mut plan.middle {
            alternative.middle.iter().for_each(|object| plan.objects[*object as usize].tier = Where::Middle);
            middle.used_bytes = alternative.middle_used_bytes;
        }
        plan.estimate();
        Some(plan)
    }

    /// Sorts the objects, which blocks, moves and alternatives name by their positions before that, and
    /// writes down the order of the blocks.
    pub(super) fn arrange(&mut self, sorted: &[usize], blocks: &[Block]) {
        let mut positions = vec![0; sorted.len()];
        sorted.iter().enumerate().for_each(|(position, index)| positions[*index] = position as u32);
        self.objects = sorted.iter().map(|index| self.objects[*index].clone()).collect();
        for each in self.moves.iter_mut().filter(|each| each.kind != MoveKind::Trim) {
            each.object = positions[each.object as usize];
        }
        for object in
            self.alternatives.iter_mut().flat_map(|each| each.fast.iter_mut().chain(&mut each.middle))
        {
            *object = positions[*object as usize];
        }
        for block in blocks {
            let object = positions[block.object];
            match self.blocks.last_mut() {
                Some((last, count)) if *last == object => *count += 1,
                _ => self.blocks.push((object, 1)),
            }
        }
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
