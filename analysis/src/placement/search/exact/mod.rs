//! The best placement of objects: the one that gains most of those whose live blocks fit into the
//! fast tier at every time.
//!
//! By branch and bound, exact unless its time runs out. Each set of objects that are live together is
//! a knapsack; the sets share objects. Prices of bytes in the sets (Lagrange multipliers, by
//! subgradients) bound what any choice gains: the bytes of each set at its price, and what objects
//! gain beyond their bytes' prices. So fixing an object changes the bound by one subtraction, and of
//! most objects the price alone says where they belong.
//!
//! Where there are several tiers with room, an object in each of them is an item of its own, and at most
//! one of its items is chosen.

mod branch;
mod problem;

use std::time::{Duration, Instant};

use branch::Branches;
use problem::Problem;

use super::instance::{Item, Room};

/// Time after which the best choice so far is taken.
pub const PATIENCE: Duration = Duration::from_millis(800);

/// A choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// For each item whether it is in the fast tier.
    pub fast: Vec<bool>,
    /// What they gain together.
    pub gain: f64,
    /// What no choice exceeds; the gain itself where it is proved to be the best.
    pub bound: f64,
}

/// Chooses among the items. `together` has the items that are live together, one list for each time
/// at which that matters; an item in none of them is never live.
pub fn best(items: &[Item], together: &[Vec<usize>], capacity: u64) -> Choice {
    best_within(items, together, capacity, PATIENCE)
}

/// The same with a time after which the best choice so far is taken.
pub fn best_within(items: &[Item], together: &[Vec<usize>], capacity: u64, patience: Duration) -> Choice {
    chosen(&in_one_tier(items, together, capacity), items.len(), patience)
}

/// Chooses among items for which there is room. `objects` has the items of each object, of which one is
/// chosen at most; each item is in one of these lists.
pub fn best_in(items: &[Item], rooms: &[Room], objects: &[Vec<usize>], patience: Duration) -> Choice {
    chosen(&Problem::new(items, rooms, objects), items.len(), patience)
}

/// What no choice exceeds.
pub fn bound(items: &[Item], together: &[Vec<usize>], capacity: u64) -> f64 {
    let problem = in_one_tier(items, together, capacity);
    let prices = problem.prices(Instant::now() + PATIENCE);
    problem.bound(&prices)
}

/// Each item is an object, and all sets share a tier. An item that does not fit by itself gains nothing.
fn in_one_tier(items: &[Item], together: &[Vec<usize>], capacity: u64) -> Problem {
    let room = |set: &Vec<usize>| Room { members: set.clone(), bytes: capacity };
    let items: Vec<Item> = items.iter().map(|item| item.within(capacity, item.gain)).collect();
    let rooms: Vec<Room> = together.iter().map(room).collect();
    let objects: Vec<Vec<usize>> = (0..items.len()).map(|item| vec![item]).collect();
    Problem::new(&items, &rooms, &objects)
}

fn chosen(problem: &Problem, items: usize, patience: Duration) -> Choice {
    let until = Instant::now() + patience;
    let mut branches = Branches::new(problem, &problem.prices(until), until);
    branches.run();
    let mut fast = vec![false; items];
    problem.positions(branches.best()).for_each(|item| fast[item] = true);
    Choice { fast, gain: branches.gain(), bound: branches.bound() }
}
