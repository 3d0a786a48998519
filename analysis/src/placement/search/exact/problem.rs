//! Items that compete for room, and prices of that room.

use std::time::Instant;

use crate::placement::search::instance::{Item, Room};

const PRICE_ROUNDS: u32 = 400;
/// How much of a direction is that of the round before.
const KEPT: f64 = 0.9;
/// How far a step goes of the way to the bound that is hoped for, at first.
const STRIDE: f64 = 0.3;
/// That bound is lower than the best one by this share of it.
const HOPE: f64 = 0.02;
/// After so many rounds that lower the bound by less than this share, steps get shorter.
const PATIENT_ROUNDS: u32 = 10;
const LESS: f64 = 1e-6;
const SHORTER: f64 = 0.7;

/// The items that gain anything and fit by themselves, numbered anew, and the sets that can be exceeded.
pub struct Problem {
    /// Where each item was.
    wanted: Vec<usize>,
    /// What each gains.
    pub gains: Vec<f64>,
    /// Its bytes.
    pub bytes: Vec<f64>,
    /// The sets that each item is in: items that are live together in one tier.
    pub sets_of: Vec<Vec<usize>>,
    /// Bytes that there are for each set.
    pub capacities: Vec<f64>,
    /// The items of each object, of which one is chosen at most.
    pub objects: Vec<Vec<usize>>,
}

impl Problem {
    /// Of these items, rooms and objects.
    pub fn new(items: &[Item], rooms: &[Room], objects: &[Vec<usize>]) -> Problem {
        let mut is_wanted: Vec<bool> = items.iter().map(|item| item.gain > 0.0).collect();
        for room in rooms {
            room.members.iter().for_each(|index| is_wanted[*index] &= items[*index].bytes <= room.bytes);
        }
        let wanted: Vec<usize> = (0..items.len()).filter(|index| is_wanted[*index]).collect();
        let mut numbers = vec![None; items.len()];
        wanted.iter().enumerate().for_each(|(number, index)| numbers[*index] = Some(number));
        let bytes = |number: &usize| items[wanted[*number]].bytes;
        let mut rooms: Vec<Room> = rooms
            .iter()
            .map(|room| {
                let mut members: Vec<usize> =
                    room.members.iter().filter_map(|index| numbers[*index]).collect();
                members.sort_unstable();
                members.dedup();
                Room { members, bytes: room.bytes }
            })
            .filter(|room| room.members.iter().map(bytes).fold(0, u64::saturating_add) > room.bytes)
            .collect();
        rooms.sort_unstable();
        rooms.dedup();
        let mut sets_of = vec![Vec::new(); wanted.len()];
        for (number, room) in rooms.iter().enumerate() {
            room.members.iter().for_each(|item| sets_of[*item].push(number));
        }
        let renamed = |object: &Vec<usize>| object.iter().filter_map(|index| numbers[*index]).collect();
        let objects: Vec<Vec<usize>> = objects.iter().map(renamed).collect();
        Problem {
            objects: objects.into_iter().filter(|object: &Vec<usize>| !object.is_empty()).collect(),
            gains: wanted.iter().map(|index| items[*index].gain).collect(),
            bytes: wanted.iter().map(|index| items[*index].bytes as f64).collect(),
            capacities: rooms.iter().map(|room| room.bytes as f64).collect(),
            wanted,
            sets_of,
        }
    }

    /// Where the chosen ones of its items were.
    pub fn positions(&self, chosen: &[bool]) -> impl Iterator<Item = usize> {
        self.wanted.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(position, _)| *position)
    }

    /// What an item gains beyond its bytes' prices.
    pub fn surplus(&self, item: usize, prices: &[f64]) -> f64 {
        self.gains[item] - self.bytes[item] * self.sets_of[item].iter().map(|set| prices[*set]).sum::<f64>()
    }

    /// The item of an object that has most surplus, if that is any, and the surplus.
    fn favourite(&self, object: &[usize], prices: &[f64]) -> Option<(usize, f64)> {
        let all = object.iter().map(|item| (*item, self.surplus(*item, prices)));
        all.max_by(|one, other| one.1.total_cmp(&other.1)).filter(|(_, surplus)| *surplus > 0.0)
    }

    /// What no choice exceeds, by these prices.
    pub fn bound(&self, prices: &[f64]) -> f64 {
        self.relaxed(prices).0
    }

    /// What no choice exceeds; and by how much the items with surplus exceed the room of each set, as a
    /// share of it.
    fn relaxed(&self, prices: &[f64]) -> (f64, Vec<f64>) {
        let mut used = vec![0.0; self.capacities.len()];
        let mut bound: f64 = self.capacities.iter().zip(prices).map(|(bytes, price)| bytes * price).sum();
        for (item, surplus) in self.objects.iter().filter_map(|object| self.favourite(object, prices)) {
            bound += surplus;
            self.sets_of[item].iter().for_each(|set| used[*set] += self.bytes[item]);
        }
        let over = |(used, room): (f64, &f64)| (used - room) / room.max(1.0);
        (bound, used.into_iter().zip(&self.capacities).map(over).collect())
    }

    /// Prices of the bytes of each set under which the bound is low: by subgradients, of which each
    /// direction has most of the last one (Camerini, Fratta and Maffioli 1975), in steps towards a bound
    /// that is a little lower (Polyak 1969).
    pub fn prices(&self, until: Instant) -> Vec<f64> {
        let mut prices = vec![0.0; self.capacities.len()];
        let (mut bound, mut over) = self.relaxed(&prices);
        let (mut best, mut best_bound) = (prices.clone(), bound);
        let mut direction = over.clone();
        let (mut stride, mut in_vain) = (STRIDE, 0);
        for _ in 0..PRICE_ROUNDS {
            for (direction, over) in direction.iter_mut().zip(&over) {
                *direction = KEPT * *direction + (1.0 - KEPT) * over;
            }
            // What costs nothing gets no cheaper.
            let changes =
                |(direction, price): (&f64, &f64)| if *price > 0.0 { *direction } else { direction.max(0.0) };
            let changes: Vec<f64> = direction.iter().zip(&prices).map(changes).collect();
            let length: f64 = changes.iter().map(|each| each * each).sum();
            if Instant::now() > until {
                break;
            }
            if length == 0.0 {
                if over.iter().all(|each| *each <= 0.0) {
                    break;
                }
                direction.clone_from(&over);
                continue;
            }
            let step = stride * (bound - (1.0 - HOPE) * best_bound) / length;
            for ((price, change), room) in prices.iter_mut().zip(&changes).zip(&self.capacities) {
                *price = (*price + step * change / room.max(1.0)).max(0.0);
            }
            (bound, over) = self.relaxed(&prices);
            in_vain += 1;
            if bound < best_bound {
                in_vain = if bound < best_bound * (1.0 - LESS) { 0 } else { in_vain };
                (best, best_bound) = (prices.clone(), bound);
            }
            if in_vain >= PATIENT_ROUNDS {
                (stride, in_vain) = (stride * SHORTER, 0);
            }
        }
        best
    }
}
