//! The best placement of objects: the one that gains most of those whose live blocks fit into the
//! fast tier at every time.
//!
//! By branch and bound, exact unless its time runs out. Each set of objects that are live together is
//! a knapsack; the sets share objects. Prices of bytes in the sets (Lagrange multipliers, by
//! subgradients) bound what any choice gains: the bytes of each set at its price, and what objects
//! gain beyond their bytes' prices. So fixing an object changes the bound by one subtraction, and of
//! most objects the price alone says where they belong.

use std::time::{Duration, Instant};

use super::instance::Item;

/// Time after which the best choice so far is taken.
const PATIENCE: Duration = Duration::from_millis(800);
const PRICE_ROUNDS: u32 = 400;
/// Items that the prices leave open, at most: with more, what was found first is taken.
const MOST_OPEN: usize = 10_000;
/// Items that a first choice begins with.
const MOST_STARTS: usize = 64;
/// What gains less than this share more is no better.
const BETTER: f64 = 1e-6;

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
    let mut problem = Problem::new(items, together, capacity);
    let until = Instant::now() + patience;
    let prices = problem.prices(until);
    let mut search = Search::new(&problem, &prices, until);
    search.run();
    let mut fast = vec![false; items.len()];
    for (position, chosen) in problem.wanted.iter().zip(&search.best) {
        fast[*position] = *chosen;
    }
    Choice { fast, gain: search.best_gain, bound: search.bound().max(search.best_gain) }
}

/// What no choice exceeds.
pub fn bound(items: &[Item], together: &[Vec<usize>], capacity: u64) -> f64 {
    let mut problem = Problem::new(items, together, capacity);
    let prices = problem.prices(Instant::now() + PATIENCE);
    problem.bound(&prices)
}

/// The items that gain anything and fit by themselves, and the sets that can be exceeded.
struct Problem {
    wanted: Vec<usize>,
    gains: Vec<f64>,
    bytes: Vec<f64>,
    sets: Vec<Vec<usize>>,
    /// The sets that each of them is in.
    sets_of: Vec<Vec<usize>>,
    capacity: f64,
}

impl Problem {
    fn new(items: &[Item], together: &[Vec<usize>], capacity: u64) -> Problem {
        let is_wanted = |item: &Item| item.gain > 0.0 && item.bytes <= capacity;
        let wanted: Vec<usize> = (0..items.len()).filter(|index| is_wanted(&items[*index])).collect();
        let mut numbers = vec![None; items.len()];
        wanted.iter().enumerate().for_each(|(number, index)| numbers[*index] = Some(number));
        let mut sets: Vec<Vec<usize>> = together
            .iter()
            .map(|set| {
                let mut set: Vec<usize> = set.iter().filter_map(|index| numbers[*index]).collect();
                set.sort_unstable();
                set.dedup();
                set
            })
            .filter(|set| set.iter().map(|number| items[wanted[*number]].bytes).sum::<u64>() > capacity)
            .collect();
        sets.sort_unstable();
        sets.dedup();
        let mut sets_of = vec![Vec::new(); wanted.len()];
        for (number, set) in sets.iter().enumerate() {
            set.iter().for_each(|item| sets_of[*item].push(number));
        }
        Problem {
            gains: wanted.iter().map(|index| items[*index].gain).collect(),
            bytes: wanted.iter().map(|index| items[*index].bytes as f64).collect(),
            wanted,
            sets,
            sets_of,
            capacity: capacity as f64,
        }
    }

    /// What an item gains beyond its bytes' prices.
    fn surplus(&self, item: usize, prices: &[f64]) -> f64 {
        self.gains[item] - self.bytes[item] * self.sets_of[item].iter().map(|set| prices[*set]).sum::<f64>()
    }

    fn bound(&self, prices: &[f64]) -> f64 {
        let surplus = (0..self.gains.len()).map(|item| self.surplus(item, prices).max(0.0));
        self.capacity * prices.iter().sum::<f64>() + surplus.sum::<f64>()
    }

    /// Prices of the bytes of each set under which the bound is low.
    fn prices(&mut self, until: Instant) -> Vec<f64> {
        let mut prices = vec![0.0; self.sets.len()];
        let (mut best, mut best_bound) = (prices.clone(), self.bound(&prices));
        // The first step is the largest density: a price at which nothing is chosen.
        let densities = (0..self.gains.len()).map(|item| self.gains[item] / self.bytes[item]);
        let mut step = densities.fold(0.0, f64::max) / self.capacity.max(1.0) / 4.0;
        for round in 0..PRICE_ROUNDS {
            let chosen: Vec<bool> =
                (0..self.gains.len()).map(|item| self.surplus(item, &prices) > 0.0).collect();
            for (price, set) in prices.iter_mut().zip(&self.sets) {
                let used: f64 = set.iter().filter(|item| chosen[**item]).map(|item| self.bytes[*item]).sum();
                *price = (*price + step * (used - self.capacity)).max(0.0);
            }
            let bound = self.bound(&prices);
            if Instant::now() > until {
                break;
            }
            if bound < best_bound {
                (best, best_bound) = (prices.clone(), bound);
            } else if round % 8 == 7 {
                step *= 0.7;
                prices.clone_from(&best);
            }
        }
        best
    }
}

struct Search<'a> {
    problem: &'a Problem,
    surplus: Vec<f64>,
    /// The items, those whose price says most first.
    order: Vec<usize>,
    root: f64,
    used: Vec<f64>,
    chosen: Vec<bool>,
    best: Vec<bool>,
    best_gain: f64,
    until: Instant,
    nodes: u32,
    stopped: bool,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, prices: &[f64], until: Instant) -> Search<'a> {
        let surplus: Vec<f64> = (0..problem.gains.len()).map(|item| problem.surplus(item, prices)).collect();
        let mut order: Vec<usize> = (0..problem.gains.len()).collect();
        // Sure decisions first: near the root they cost one path, near the leaves each a subtree.
        order.sort_by(|one, other| surplus[*other].abs().total_cmp(&surplus[*one].abs()));
        Search {
            surplus,
            order,
            root: problem.bound(prices),
            used: vec![0.0; problem.sets.len()],
            chosen: vec![false; problem.gains.len()],
            best: vec![false; problem.gains.len()],
            best_gain: 0.0,
            until,
            nodes: 0,
            stopped: false,
            problem,
        }
    }

    fn run(&mut self) {
        self.greedy();
        if let Some(gain) = self.settle() {
            // Each open item may be a call deeper.
            self.stopped = self.order.len() > MOST_OPEN;
            self.branch(0, self.root, gain);
        }
    }

    /// Decides what the price alone decides: any better choice than the best so far has these items
    /// where their surplus says. What they gain; `None` if there is no better choice.
    fn settle(&mut self) -> Option<f64> {
        let slack = self.root - self.best_gain;
        let (sure, open): (Vec<usize>, Vec<usize>) =
            self.order.iter().partition(|item| self.surplus[**item].abs() > slack);
        self.order = open;
        let mut gain = 0.0;
        for item in sure.into_iter().filter(|item| self.surplus[*item] > 0.0).collect::<Vec<_>>() {
            if !self.fits(item) {
                return None;
            }
            self.put(item, 1.0);
            gain += self.problem.gains[item];
        }
        Some(gain)
    }

    fn bound(&self) -> f64 {
        if self.stopped { self.root } else { self.best_gain * (1.0 + BETTER) }
    }

    fn fits(&self, item: usize) -> bool {
        let bytes = self.problem.bytes[item];
        self.problem.sets_of[item].iter().all(|set| self.used[*set] + bytes <= self.problem.capacity)
    }

    fn put(&mut self, item: usize, sign: f64) {
        self.chosen[item] = sign > 0.0;
        for set in &self.problem.sets_of[item] {
            self.used[*set] += sign * self.problem.bytes[item];
        }
    }

    /// First choices: by surplus for their bytes, as long as they fit; and the same after each of the
    /// items that gain most, which alone may gain more than all that is in their way.
    fn greedy(&mut self) {
        let density = |item: &usize| self.surplus[*item] / self.problem.bytes[*item];
        let mut order = self.order.clone();
        order.sort_by(|one, other| density(other).total_cmp(&density(one)));
        let mut largest = self.order.clone();
        largest.sort_by(|one, other| self.problem.gains[*other].total_cmp(&self.problem.gains[*one]));
        self.fill(&order);
        for item in largest.into_iter().take(MOST_STARTS) {
            if Instant::now() > self.until {
                break;
            }
            let first: Vec<usize> = std::iter::once(item).chain(order.iter().copied()).collect();
            self.fill(&first);
        }
    }

    /// The choice by an order, kept if it is better than the best so far.
    fn fill(&mut self, order: &[usize]) {
        let mut gain = 0.0;
        for item in order {
            if !self.chosen[*item] && self.fits(*item) {
                self.put(*item, 1.0);
                gain += self.problem.gains[*item];
            }
        }
        if gain > self.best_gain {
            self.best.clone_from(&self.chosen);
            self.best_gain = gain;
        }
        for item in 0..self.chosen.len() {
            if self.chosen[item] {
                self.put(item, -1.0);
            }
        }
    }

    /// Decides on the items from `depth` on. `bound` is what no choice exceeds that agrees with what
    /// is decided.
    fn branch(&mut self, depth: usize, bound: f64, gain: f64) {
        self.nodes += 1;
        if self.nodes.is_multiple_of(1024) && Instant::now() > self.until {
            self.stopped = true;
        }
        if self.stopped || bound <= self.best_gain * (1.0 + BETTER) {
            return;
        }
        let Some(&item) = self.order.get(depth) else {
            if gain > self.best_gain {
                self.best_gain = gain;
                self.best.clone_from(&self.chosen);
            }
            return;
        };
        let surplus = self.surplus[item];
        for fast in [surplus > 0.0, surplus <= 0.0] {
            let lost = if fast == (surplus > 0.0) { 0.0 } else { surplus.abs() };
            if !fast {
                self.branch(depth + 1, bound - lost, gain);
            } else if self.fits(item) {
                self.put(item, 1.0);
                self.branch(depth + 1, bound - lost, gain + self.problem.gains[item]);
                self.put(item, -1.0);
            }
        }
    }
}
