//! Choices that evolve: a population of Boltzmann chromosomes, as published for memory placement
//! (Khadka et al., "Optimizing memory placement using evolutionary graph reinforcement learning",
//! ICLR 2021).
//!
//! A chromosome has odds and a temperature for each object, from which a choice is drawn. The choice
//! is rewarded by what it gains; where it does not fit, the reward is negative, the more so the less
//! it fits.

use super::instance::Instance;
use crate::stats::random::Random;

const POPULATION: usize = 20;
const ELITES: usize = POPULATION / 10;
/// Children that have two parents.
const CROSSOVER: f64 = 0.3;
/// Children that are mutated.
const MUTATION: f64 = 0.85;
/// Of a mutated child, genes that change.
const MUTATED_GENES: f64 = 0.1;
/// A parent is the best of so many.
const TOURNAMENT: usize = 3;
/// What a temperature may become.
const TEMPERATURES: (f64, f64) = (0.05, 5.0);

/// The most rewarded of the choices that so many evaluations try.
pub fn evolved(instance: &Instance, evaluations: usize, seed: u64) -> Vec<bool> {
    let mut random = Random::seeded(seed);
    let mut best = (0.0, vec![false; instance.items.len()]);
    let share = (instance.capacity as f64 / instance.peak().max(1) as f64).clamp(0.01, 0.99);
    let odds = (share / (1.0 - share)).ln();
    let newborn = |random: &mut Random| Chromosome::drawn(odds, instance.items.len(), random);
    let mut children: Vec<Chromosome> = (0..POPULATION).map(|_| newborn(&mut random)).collect();
    let mut elites = Vec::new();
    let mut left = evaluations;
    while left > 0 {
        children.truncate(left);
        left -= children.len();
        let evaluated = children.into_iter().map(|child| {
            let choice = child.choice(&mut random);
            let reward = reward(instance, &choice);
            if reward > best.0 {
                best = (reward, choice);
            }
            (reward, child)
        });
        let mut population: Vec<(f64, Chromosome)> = elites.into_iter().chain(evaluated).collect();
        population.sort_by(|one, other| other.0.total_cmp(&one.0));
        population.truncate(POPULATION);
        children = (ELITES..POPULATION).map(|_| child(&population, &mut random)).collect();
        population.truncate(ELITES);
        elites = population;
    }
    best.1
}

/// What a choice gains; where it does not fit, what it takes too much, as a share, counts against it.
fn reward(instance: &Instance, choice: &[bool]) -> f64 {
    let used = instance.used(choice);
    match used.checked_sub(instance.capacity) {
        None | Some(0) => instance.gain(choice),
        Some(over) => -(over as f64) / instance.capacity.max(1) as f64,
    }
}

fn child(population: &[(f64, Chromosome)], random: &mut Random) -> Chromosome {
    // They are sorted by reward.
    let parent = |random: &mut Random| {
        let number = (0..TOURNAMENT).map(|_| random.below(population.len())).min().unwrap_or(0);
        &population[number].1
    };
    let mut child = parent(random).clone();
    if random.uniform() < CROSSOVER {
        child.take_half(parent(random), random);
    }
    if random.uniform() < MUTATION {
        child.mutate(random);
    }
    child
}

#[derive(Clone)]
struct Chromosome(Vec<Gene>);

#[derive(Clone, Copy)]
struct Gene {
    /// Logarithm of the odds of the fast tier, at a temperature of 1.
    odds: f64,
    temperature: f64,
}

impl Chromosome {
    fn drawn(odds: f64, genes: usize, random: &mut Random) -> Chromosome {
        Chromosome((0..genes).map(|_| Gene { odds: odds + random.normal(), temperature: 1.0 }).collect())
    }

    fn choice(&self, random: &mut Random) -> Vec<bool> {
        let is_fast = |gene: &Gene| random.uniform() < 1.0 / (1.0 + (-gene.odds / gene.temperature).exp());
        self.0.iter().map(is_fast).collect()
    }

    fn take_half(&mut self, other: &Chromosome, random: &mut Random) {
        for (gene, theirs) in self.0.iter_mut().zip(&other.0) {
            if random.uniform() < 0.5 {
                *gene = *theirs;
            }
        }
    }

    fn mutate(&mut self, random: &mut Random) {
        let (coldest, hottest) = TEMPERATURES;
        for gene in &mut self.0 {
            if random.uniform() < MUTATED_GENES {
                gene.odds += random.normal();
                gene.temperature = (gene.temperature * (0.3 * random.normal()).exp()).clamp(coldest, hottest);
            }
        }
    }
}
