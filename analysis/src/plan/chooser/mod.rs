//! Chunks chosen while a job runs, from no model at all: a safe bandit.
//!
//! State: operator, shape, dtype, workers, budget and what was observed. Action: a chunk shape of
//! the feasible set. Reward: minus the job's time; a task over the budget is never to be repeated.
//!
//! Bytes of a task are a Bayesian regression ([`crate::stats::posterior`]) over 1, the surface and
//! the volume of its block (chunk and halo), seconds one over more ([`seconds`]). A chunk is *safe*
//! if the upper bound of its bytes is within the budget; among the safe ones Thompson sampling
//! (Thompson 1933; Russo et al., "A tutorial on Thompson sampling", 2018) takes the fastest by one
//! draw from the posterior of the seconds. Growing only as far as bounds allow is the rule of safe
//! optimisation (Sui et al., "Safe exploration for optimization with Gaussian processes", 2015):
//! the safe set grows with what was observed inside it.

mod seconds;

use std::collections::BTreeMap;

use self::seconds::{Parts, Times, parts};
use crate::plan::cuts::chunk_shapes;
use crate::plan::error::PlanError;
use crate::plan::request::Request;
use crate::stats::posterior::{Evidence, Posterior, Prior};
use crate::stats::random::Random;

/// The chance that is taken, per choice, that a chunk needs more than its bound.
const RISK: f64 = 1e-3;
/// Relative noise of bytes as first believed, and how firmly (half observations).
const NOISE: f64 = 0.02;
const FIRM: f64 = 1.0;
/// Each part of a task may by itself explain this much of the first observation.
const PART: f64 = 1.5;
/// The form of the bytes departs from the regression by this part, per logarithm of how far a
/// block's lengths are from those of the nearest one that was tried …
const MISFIT: f64 = 0.1;
/// … and is not extrapolated further than to twice a length: another step of the operator may set
/// the peak there.
const FAR: f64 = 0.7;
/// The best chunk is the one whose job stays below the least time with this probability: one that
/// was tried, or is like those, before one that is only hoped to be fast.
const SURE: f64 = 0.75;
/// Memory grows at most as its cells do, with this much to spare (rounding to pages and lines).
const GROWTH_MARGIN: f64 = 1.03;

/// Chooses chunk shapes one task at a time.
#[derive(Debug, Clone)]
pub struct ChunkChooser {
    candidates: Vec<Candidate>,
    budget: f64,
    /// Candidate and bytes of the first task: the units of the rest.
    first: Option<(usize, f64)>,
    /// Least and most bytes of the tasks of a candidate.
    needed: BTreeMap<usize, (f64, f64)>,
    /// Chunks that needed more than the budget.
    over: Vec<Vec<u64>>,
    bytes: Evidence,
    times: Times,
    random: Random,
}

/// A chunk shape of the feasible set.
#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    chunk: Vec<u64>,
    block: Vec<u64>,
    /// Tasks of the slot that has most of them.
    rounds: f64,
    parts: Parts,
}

/// What is believed of a chunk shape.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Belief {
    /// Lengths of the chunk.
    pub chunk: Vec<u64>,
    /// Expected bytes of a task, its input included; null before any observation.
    pub bytes: Option<f64>,
    /// What they stay below; null before any observation.
    pub upper_bytes: Option<f64>,
    /// Expected seconds of the whole job; null before any observation.
    pub seconds: Option<f64>,
}

impl ChunkChooser {
    /// For the request's array, halo, whole axes, workers and threads. `budget_bytes` is what one
    /// task may take, its input included. `chunks` narrows the feasible set; without it, it is that
    /// of [`crate::plan::recommend`]. The same seed makes the same choices.
    ///
    /// # Errors
    /// A request that contradicts itself, or a feasible set that is empty or not of its array.
    pub fn new(
        request: &Request,
        budget_bytes: u64,
        chunks: Option<Vec<Vec<u64>>>,
        seed: u64,
    ) -> Result<ChunkChooser, PlanError> {
        let slots = request.workers.saturating_mul(request.threads_per_worker).max(1);
        let feasible = chunk_shapes(request, chunks)?;
        let mut candidates: Vec<Candidate> = feasible
            .into_iter()
            .map(|cut| Candidate {
                rounds: cut.tasks.div_ceil(slots) as f64,
                parts: parts(&cut.block),
                chunk: cut.chunk,
                block: cut.block,
            })
            .collect();
        candidates.sort_by(|a, b| a.parts[2].total_cmp(&b.parts[2]).then_with(|| a.chunk.cmp(&b.chunk)));
        candidates.dedup_by(|a, b| a.chunk == b.chunk);
        if candidates.is_empty() {
            return Err(PlanError::Request(
                "there is no chunk shape to choose from: name at least one".into(),
            ));
        }
        Ok(ChunkChooser {
            candidates,
            budget: budget_bytes as f64,
            first: None,
            needed: BTreeMap::new(),
            over: Vec::new(),
            bytes: Evidence::default(),
            times: Times::default(),
            random: Random::seeded(seed),
        })
    }

    /// The chunk for the next task: the smallest one first, later the safe one that a draw from
    /// the posterior says is fastest. `None` where no chunk fits: even the smallest needed more.
    pub fn choose(&mut self) -> Option<Vec<u64>> {
        let safe = self.safe();
        let ChunkChooser { candidates, times, random, .. } = self;
        let fitted = times.fitted();
        let sample = fitted.as_ref().map(|fitted| (fitted, fitted.sample(random)));
        let drawn = |&at: &usize| {
            let own = random.normal();
            let candidate = &candidates[at];
            sample.as_ref().map_or(0.0, |(fitted, sample)| {
                candidate.rounds * fitted.drawn(at, &candidate.parts, sample, own)
            })
        };
        let drawn: Vec<f64> = safe.iter().map(drawn).collect();
        let fastest = (0..safe.len()).min_by(|&a, &b| drawn[a].total_cmp(&drawn[b]))?;
        Some(self.candidates[safe[fastest]].chunk.clone())
    }

    /// The chunk that is believed to be best of those that are safe; no draw is made.
    pub fn best(&self) -> Option<Vec<u64>> {
        let fitted = self.times.fitted();
        let seconds = |&at: &usize| {
            let candidate = &self.candidates[at];
            let task = fitted.as_ref().map_or(0.0, |fitted| fitted.below(at, &candidate.parts, SURE));
            candidate.rounds * task
        };
        let best = self.safe().into_iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)))?;
        Some(self.candidates[best].chunk.clone())
    }

    /// A task of this chunk took `bytes`, its input included, and `seconds`.
    ///
    /// # Errors
    /// The chunk is not of the feasible set.
    pub fn observe(&mut self, chunk: &[u64], bytes: u64, seconds: f64) -> Result<(), PlanError> {
        let at = self.find(chunk)?;
        let bytes = bytes.max(1) as f64;
        if bytes > self.budget {
            self.over.push(self.candidates[at].block.clone());
        }
        let (_, first) = *self.first.get_or_insert((at, bytes));
        let row = self.relative(at).map(|part| part * first / bytes);
        self.bytes.add(&row, 1.0);
        let (least, most) = self.needed.entry(at).or_insert((bytes, bytes));
        (*least, *most) = (least.min(bytes), most.max(bytes));
        self.times.add(at, &self.candidates[at].parts, seconds.max(1e-9));
        Ok(())
    }

    /// A task of this chunk was killed for lack of memory, or would not fit: neither this chunk nor
    /// any that is as long in every dimension is chosen again.
    ///
    /// # Errors
    /// The chunk is not of the feasible set.
    pub fn failed(&mut self, chunk: &[u64]) -> Result<(), PlanError> {
        let candidate = self.find(chunk)?;
        self.over.push(self.candidates[candidate].block.clone());
        Ok(())
    }

    /// What is believed of a chunk of the feasible set.
    ///
    /// # Errors
    /// The chunk is not of the feasible set.
    pub fn belief(&self, chunk: &[u64]) -> Result<Belief, PlanError> {
        let candidate = self.find(chunk)?;
        let (bytes, fitted) = (self.bytes_posterior(), self.times.fitted());
        let expected = |posterior: &(Posterior, f64)| posterior.0.at(&self.relative(candidate)) * posterior.1;
        let Candidate { rounds, parts, .. } = &self.candidates[candidate];
        Ok(Belief {
            chunk: chunk.to_vec(),
            bytes: bytes.as_ref().map(expected),
            upper_bytes: bytes.as_ref().map(|posterior| self.upper(candidate, posterior)),
            seconds: fitted.map(|fitted| rounds * fitted.expected(candidate, parts)),
        })
    }

    fn find(&self, chunk: &[u64]) -> Result<usize, PlanError> {
        let found = self.candidates.iter().position(|candidate| candidate.chunk == chunk);
        found.ok_or_else(|| {
            PlanError::Request(format!(
                "{} is not one of the chunk shapes to choose from",
                crate::shape::joined(chunk)
            ))
        })
    }

    /// Candidates whose bound is within the budget. Before any observation the smallest: nothing
    /// is known, and nothing needs less.
    fn safe(&self) -> Vec<usize> {
        let smallest = &self.candidates[0];
        let Some(posterior) = self.bytes_posterior() else {
            return if self.is_refused(smallest) { Vec::new() } else { vec![0] };
        };
        let within =
            |&at: &usize| !self.is_refused(&self.candidates[at]) && self.upper(at, &posterior) <= self.budget;
        (0..self.candidates.len()).filter(within).collect()
    }

    /// True for what needs at least as much as something that went over the budget.
    fn is_refused(&self, candidate: &Candidate) -> bool {
        self.over.iter().any(|over| over.iter().zip(&candidate.block).all(|(over, length)| length >= over))
    }

    /// What the bytes of a task stay below: the posterior's bound, near what was tried; but no more
    /// than a task that was observed took times the growth of its cells, as memory grows no faster
    /// than the block or what comes out of it; and for a chunk that was observed itself, the most
    /// it took.
    fn upper(&self, candidate: usize, (posterior, first): &(Posterior, f64)) -> f64 {
        if let Some((_, most)) = self.needed.get(&candidate) {
            return most * GROWTH_MARGIN;
        }
        let row = self.relative(candidate);
        let expected = posterior.at(&row);
        let far =
            self.needed.keys().map(|&tried| self.distance(tried, candidate)).fold(f64::INFINITY, f64::min);
        let noise = expected.abs() * 1f64.hypot(far * MISFIT / NOISE);
        let bound = posterior.quantile(&row, noise, 1.0 - RISK).max(expected) * first;
        let bound = if far <= FAR { bound } else { f64::INFINITY };
        let grown = self.needed.iter().map(|(&from, (least, _))| least * self.growth(from, candidate));
        grown.fold(bound, f64::min)
    }

    /// Sum over the axes of the logarithm of how much the blocks' lengths differ.
    fn distance(&self, from: usize, to: usize) -> f64 {
        let lengths = self.candidates[from].block.iter().zip(&self.candidates[to].block);
        lengths.map(|(&from, &to)| (to as f64 / from as f64).ln().abs()).sum()
    }

    fn growth(&self, from: usize, to: usize) -> f64 {
        let (from, to) = (&self.candidates[from], &self.candidates[to]);
        // Along each axis by the block or by the chunk, whichever grows more; a shorter axis is no
        // reason to need less.
        let ratio = |axis: usize| {
            let of = |to: &[u64], from: &[u64]| to[axis] as f64 / from[axis] as f64;
            of(&to.block, &from.block).max(of(&to.chunk, &from.chunk)).max(1.0)
        };
        (0..to.chunk.len()).map(ratio).product::<f64>() * GROWTH_MARGIN
    }

    /// 1, surface and volume of a candidate over those of the first one that was observed.
    fn relative(&self, candidate: usize) -> [f64; 3] {
        let first = self.first.map_or(candidate, |(first, _)| first);
        let (own, first) = (&self.candidates[candidate].parts, &self.candidates[first].parts);
        std::array::from_fn(|part| own[part] / first[part])
    }

    /// In units of the first task's bytes, and these.
    fn bytes_posterior(&self) -> Option<(Posterior, f64)> {
        let (_, first) = self.first?;
        let posterior = Posterior::of(&Prior::new(NOISE, FIRM, &[PART; 3]), &self.bytes)?;
        Some((posterior, first))
    }
}

#[cfg(test)]
mod tests;
