//! Three tiers: an object is in the fast one, in the middle one, or in neither.
//!
//! The search is the one for two tiers. An object has two items, of which one is chosen at most: itself
//! in the fast tier, and itself in the middle one.

use std::time::Duration;

use super::exact::best_in;
use super::instance::{Instance, Item, Room};

/// A choice between three tiers.
#[derive(Debug, Clone, PartialEq)]
pub struct InThree {
    /// For each item whether it is in the fast tier.
    pub fast: Vec<bool>,
    /// For each item whether it is in the middle one.
    pub middle: Vec<bool>,
    /// What they gain together.
    pub gain: f64,
    /// What no choice exceeds; the gain itself where it is proved to be the best.
    pub bound: f64,
}

/// The best choice. `fast` has what each item gains in the fast tier, and that tier's bytes; in the
/// middle tier it gains `middle_gains`, and there are `middle_bytes`. After so much time the best choice
/// so far is taken.
pub fn best_of_three(
    fast: &Instance,
    middle_gains: &[f64],
    middle_bytes: u64,
    patience: Duration,
) -> InThree {
    let count = fast.items.len();
    let in_fast = fast.items.iter().map(|item| item.within(fast.capacity, item.gain));
    let both = fast.items.iter().zip(middle_gains);
    let in_middle = both.map(|(item, gain)| item.within(middle_bytes, *gain));
    let items: Vec<Item> = in_fast.chain(in_middle).collect();
    let rooms_of = |set: &Vec<usize>| {
        let of_middle = set.iter().map(|item| count + item).collect();
        [
            Room { members: set.clone(), bytes: fast.capacity },
            Room { members: of_middle, bytes: middle_bytes },
        ]
    };
    let rooms: Vec<Room> = fast.together.iter().flat_map(rooms_of).collect();
    let objects: Vec<Vec<usize>> = (0..count).map(|item| vec![item, count + item]).collect();
    let mut choice = best_in(&items, &rooms, &objects, patience);
    let middle = choice.fast.split_off(count);
    InThree { fast: choice.fast, middle, gain: choice.gain, bound: choice.bound }
}
