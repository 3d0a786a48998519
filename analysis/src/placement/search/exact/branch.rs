//! Branch and bound over the objects, those whose prices say most first.

use std::time::Instant;

use super::problem::Problem;

/// Objects that the prices leave open, at most: with more, what was found first is taken.
const MOST_OPEN: usize = 10_000;
/// Items that a first choice begins with.
const MOST_STARTS: usize = 64;
/// What gains less than this share more is no better.
const BETTER: f64 = 1e-6;

/// An object: its items, and none of them, each with what the bound loses by it; the least first.
struct Decision(Vec<(Option<usize>, f64)>);

impl Decision {
    fn of(object: &[usize], surplus: &[f64]) -> Decision {
        let items = object.iter().map(|item| (Some(*item), surplus[*item]));
        let mut options: Vec<(Option<usize>, f64)> = items.chain([(None, 0.0)]).collect();
        options.sort_by(|one, other| other.1.total_cmp(&one.1));
        let most = options[0].1;
        options.iter_mut().for_each(|(_, surplus)| *surplus = most - *surplus);
        Decision(options)
    }

    /// What anything else than its first option loses.
    fn sure(&self) -> f64 {
        self.0[1].1
    }
}

/// A search.
pub struct Branches<'a> {
    problem: &'a Problem,
    surplus: Vec<f64>,
    decisions: Vec<Decision>,
    /// Which object each item is of.
    object_of: Vec<usize>,
    /// Objects of which an item is chosen.
    taken: Vec<bool>,
    root: f64,
    used: Vec<f64>,
    chosen: Vec<bool>,
    best: Vec<bool>,
    best_gain: f64,
    until: Instant,
    nodes: u32,
    stopped: bool,
}

impl<'a> Branches<'a> {
    /// By these prices, until a time.
    pub fn new(problem: &'a Problem, prices: &[f64], until: Instant) -> Branches<'a> {
        let items = problem.gains.len();
        let surplus: Vec<f64> = (0..items).map(|item| problem.surplus(item, prices)).collect();
        let mut decisions: Vec<Decision> =
            problem.objects.iter().map(|object| Decision::of(object, &surplus)).collect();
        // Sure decisions first: near the root they cost one path, near the leaves each a subtree.
        decisions.sort_by(|one, other| other.sure().total_cmp(&one.sure()));
        let mut object_of = vec![0; items];
        for (number, object) in problem.objects.iter().enumerate() {
            object.iter().for_each(|item| object_of[*item] = number);
        }
        Branches {
            surplus,
            decisions,
            object_of,
            taken: vec![false; problem.objects.len()],
            root: problem.bound(prices),
            used: vec![0.0; problem.capacities.len()],
            chosen: vec![false; items],
            best: vec![false; items],
            best_gain: 0.0,
            until,
            nodes: 0,
            stopped: false,
            problem,
        }
    }

    /// Which items the best choice so far has.
    pub fn best(&self) -> &[bool] {
        &self.best
    }

    /// What it gains.
    pub fn gain(&self) -> f64 {
        self.best_gain
    }

    /// What no choice exceeds.
    pub fn bound(&self) -> f64 {
        let proved = if self.stopped { self.root } else { self.best_gain * (1.0 + BETTER) };
        proved.max(self.best_gain)
    }

    /// Searches.
    pub fn run(&mut self) {
        self.greedy();
        if let Some(gain) = self.settle() {
            // Each open object may be a call deeper.
            self.stopped = self.decisions.len() > MOST_OPEN;
            self.branch(0, self.root, gain);
        }
    }

    /// Decides what the price alone decides: any better choice than the best so far has these objects
    /// where their surplus says. What they gain; `None` if there is no better choice.
    fn settle(&mut self) -> Option<f64> {
        let slack = self.root - self.best_gain;
        let sure = self.decisions.partition_point(|decision| decision.sure() > slack);
        let mut gain = 0.0;
        for decision in self.decisions.drain(..sure).collect::<Vec<_>>() {
            if let Some(item) = decision.0[0].0 {
                if !self.fits(item) {
                    return None;
                }
                self.put(item, 1.0);
                gain += self.problem.gains[item];
            }
        }
        Some(gain)
    }

    fn fits(&self, item: usize) -> bool {
        let bytes = self.problem.bytes[item];
        let has_room = |set: &usize| self.used[*set] + bytes <= self.problem.capacities[*set];
        !self.taken[self.object_of[item]] && self.problem.sets_of[item].iter().all(has_room)
    }

    fn put(&mut self, item: usize, sign: f64) {
        self.chosen[item] = sign > 0.0;
        self.taken[self.object_of[item]] = sign > 0.0;
        for set in &self.problem.sets_of[item] {
            self.used[*set] += sign * self.problem.bytes[item];
        }
    }

    /// First choices: by surplus for their bytes, as long as they fit; and the same after each of the
    /// items that gain most, which alone may gain more than all that is in their way.
    fn greedy(&mut self) {
        let density = |item: &usize| self.surplus[*item] / self.problem.bytes[*item];
        let mut order: Vec<usize> = (0..self.chosen.len()).collect();
        order.sort_by(|one, other| density(other).total_cmp(&density(one)));
        let mut largest = order.clone();
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
            if self.fits(*item) {
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

    /// Decides on the objects from `depth` on. `bound` is what no choice exceeds that agrees with what is
    /// decided.
    fn branch(&mut self, depth: usize, bound: f64, gain: f64) {
        self.nodes += 1;
        if self.nodes.is_multiple_of(1024) && Instant::now() > self.until {
            self.stopped = true;
        }
        if self.stopped || bound <= self.best_gain * (1.0 + BETTER) {
            return;
        }
        let Some(options) = self.decisions.get(depth).map(|decision| decision.0.len()) else {
            if gain > self.best_gain {
                self.best_gain = gain;
                self.best.clone_from(&self.chosen);
            }
            return;
        };
        for option in 0..options {
            match self.decisions[depth].0[option] {
                (None, lost) => self.branch(depth + 1, bound - lost, gain),
                (Some(item), lost) if self.fits(item) => {
                    self.put(item, 1.0);
                    self.branch(depth + 1, bound - lost, gain + self.problem.gains[item]);
                    self.put(item, -1.0);
                }
                (Some(_), _) => {}
            }
        }
    }
}
