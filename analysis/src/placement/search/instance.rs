//! Objects that compete for the fast tier, and what a choice of them takes and gains.

use serde::{Deserialize, Serialize};

/// An object that can be placed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What it gains in the fast tier; not positive: it stays.
    pub gain: f64,
    /// Bytes of its block.
    pub bytes: u64,
}

impl Item {
    /// The item in a tier of so many bytes, in which it has this gain: none if it does not fit by itself.
    pub(super) fn within(&self, capacity: u64, gain: f64) -> Item {
        Item { gain: if self.bytes > capacity { 0.0 } else { gain }, bytes: self.bytes }
    }
}

/// Items that are live together, and the bytes that there are for them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Room {
    /// The items (positions); each may be in several.
    pub members: Vec<usize>,
    /// What those of a choice may take together.
    pub bytes: u64,
}

/// What a recorded run says of an object, whatever it gains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traits {
    /// How many blocks it has, one after the other.
    pub blocks: u64,
    /// How many objects have its call stack and size.
    pub siblings: u64,
    /// When its first block is allocated, as a share of the run.
    pub begin: f64,
    /// When its last one is released.
    pub end: f64,
    /// How much of the run it is live.
    pub live: f64,
    /// Bytes that are allocated from one of its blocks to the next, in the middle; 0 of a single block.
    pub reuse_bytes: f64,
    /// Share of the samples that met it; `None` if none were taken.
    pub time_share: Option<f64>,
}

/// What is chosen from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// The objects, in the order of their first allocation.
    pub items: Vec<Item>,
    /// What is known of each.
    pub traits: Vec<Traits>,
    /// The items that are live together, one list for each time at which that matters.
    pub together: Vec<Vec<usize>>,
    /// Bytes of the fast tier.
    pub capacity: u64,
}

impl Instance {
    /// Bytes of the fast tier that a choice uses at most at one time. What is never live has to fit by
    /// itself.
    pub fn used(&self, fast: &[bool]) -> u64 {
        let bytes = |item: &usize| if fast[*item] { self.items[*item].bytes } else { 0 };
        let alone = (0..self.items.len()).map(|item| bytes(&item));
        let together = self.together.iter().map(|set| set.iter().map(bytes).fold(0, u64::saturating_add));
        together.chain(alone).max().unwrap_or(0)
    }

    /// Bytes of all that is live at one time, at most.
    pub fn peak(&self) -> u64 {
        self.used(&vec![true; self.items.len()])
    }

    /// The items that a choice has left, for so many bytes of another tier, and their positions here.
    pub fn rest(&self, chosen: &[bool], capacity: u64) -> (Instance, Vec<usize>) {
        let left: Vec<usize> = (0..self.items.len()).filter(|item| !chosen[*item]).collect();
        let mut numbers = vec![None; self.items.len()];
        left.iter().enumerate().for_each(|(number, item)| numbers[*item] = Some(number));
        let renamed = |set: &Vec<usize>| set.iter().filter_map(|item| numbers[*item]).collect();
        let rest = Instance {
            items: left.iter().map(|item| self.items[*item]).collect(),
            traits: left.iter().map(|item| self.traits[*item]).collect(),
            together: self.together.iter().map(renamed).collect(),
            capacity,
        };
        (rest, left)
    }

    /// What a choice gains.
    pub fn gain(&self, fast: &[bool]) -> f64 {
        self.items.iter().zip(fast).filter(|(_, fast)| **fast).map(|(item, _)| item.gain).sum()
    }
}

/// Puts objects into the fast tier one after the other, as far as they fit.
pub struct Filling<'a> {
    instance: &'a Instance,
    sets_of: Vec<Vec<usize>>,
}

impl<'a> Filling<'a> {
    /// Of these objects.
    pub fn new(instance: &'a Instance) -> Filling<'a> {
        let mut sets_of = vec![Vec::new(); instance.items.len()];
        for (number, set) in instance.together.iter().enumerate() {
            set.iter().for_each(|item| sets_of[*item].push(number));
        }
        Filling { instance, sets_of }
    }

    /// The choice that this order makes.
    pub fn by(&self, order: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let Instance { items, together, capacity, .. } = self.instance;
        let mut free = vec![*capacity; together.len()];
        let mut fast = vec![false; items.len()];
        for item in order {
            let bytes = items[item].bytes;
            if bytes <= *capacity && self.sets_of[item].iter().all(|set| free[*set] >= bytes) {
                self.sets_of[item].iter().for_each(|set| free[*set] -= bytes);
                fast[item] = true;
            }
        }
        fast
    }

    /// The choice by a number for each object, the largest first.
    pub fn by_score(&self, score: impl Fn(usize) -> f64) -> Vec<bool> {
        let mut order: Vec<usize> = (0..self.instance.items.len()).collect();
        order.sort_by(|one, other| score(*other).total_cmp(&score(*one)));
        self.by(order)
    }
}
