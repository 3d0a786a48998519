//! Chunks chosen while a job runs, from no model at all: a safe bandit.
//!
//! State: operator, shape, dtype, workers, budget and what was observed. Action: a chunk shape of
//! the feasible set. Reward: minus the job's time; a task over the budget is never to be repeated.
//!
//! Bytes and seconds of a task are each a Bayesian regression ([`super::posterior`]) over 1, the
//! surface and the volume of its block (chunk and halo). A chunk is *safe* if the upper bound of
//! its bytes is within the budget; among the safe ones Thompson sampling (Thompson 1933; Russo et
//! al., "A tutorial on Thompson sampling", 2018) takes the fastest by one draw from the posterior of
//! the seconds. Growing only as far as bounds allow is the rule of safe optimisation (Sui et al.,
//! "Safe exploration for optimization with Gaussian processes", 2015): the safe set grows with what
//! was observed inside it.

use super::posterior::{Evidence, Posterior, Prior};
use super::random::Random;
use crate::plan::{PlanError, Request, chunk_shapes};

/// The chance that is taken, per choice, that a chunk needs more than its bound.
const RISK: f64 = 1e-3;
/// Relative noise of bytes and of seconds as first believed, and how firmly (half observations).
const BYTES_NOISE: f64 = 0.02;
const BYTES_FIRM: f64 = 1.0;
const SECONDS_NOISE: f64 = 0.2;
const SECONDS_FIRM: f64 = 1.5;
/// Each part of a task may by itself explain so much of the first observation.
const PART: f64 = 1.5;
/// Relative deviation of one chunk shape's seconds from the regression: caches and strides.
const OWN_SECONDS: f64 = 0.1;
/// Memory grows at most as its cells do, with this much to spare (rounding to pages and lines).
const GROWTH_MARGIN: f64 = 1.03;

/// Chooses chunk shapes one task at a time.
#[derive(Debug, Clone)]
pub struct ChunkChooser {
    candidates: Vec<Candidate>,
    budget: f64,
    observed: Vec<Task>,
    /// Chunks that needed more than the budget.
    over: Vec<Vec<u64>>,
    bytes: Evidence,
    seconds: Evidence,
    random: Random,
}

/// A chunk shape of the feasible set.
#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    chunk: Vec<u64>,
    block: Vec<u64>,
    /// Tasks of the slot that has most of them.
    rounds: f64,
    /// 1, surface and volume of the block.
    parts: [f64; 3],
}

/// A task that ran.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Task {
    candidate: usize,
    bytes: f64,
    seconds: f64,
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
            observed: Vec::new(),
            over: Vec::new(),
            bytes: Evidence::default(),
            seconds: Evidence::default(),
            random: Random::seeded(seed),
        })
    }

    /// The chunk for the next task: the smallest one first, later the safe one that a draw from
    /// the posterior says is fastest. `None` where no chunk fits: even the smallest needed more.
    pub fn choose(&mut self) -> Option<Vec<u64>> {
        let (safe, belief) = (self.safe(), self.seconds_posterior());
        let weights = belief.map(|posterior| posterior.sample(&mut self.random));
        let draws: Vec<f64> = safe.iter().map(|_| self.random.normal()).collect();
        let seconds = |(&candidate, draw): (&usize, &f64)| match &weights {
            Some(weights) => self.job_seconds(candidate, weights, *draw),
            None => 0.0,
        };
        let drawn: Vec<f64> = safe.iter().zip(&draws).map(seconds).collect();
        let fastest = (0..safe.len()).min_by(|&a, &b| drawn[a].total_cmp(&drawn[b]))?;
        Some(self.candidates[safe[fastest]].chunk.clone())
    }

    /// The chunk that is believed to be best of those that are safe; no draw is made.
    pub fn best(&self) -> Option<Vec<u64>> {
        let posterior = self.seconds_posterior();
        let seconds = |&candidate: &usize| match &posterior {
            Some(posterior) => self.job_seconds(candidate, &posterior.mean, 0.0),
            None => 0.0,
        };
        let best = self.safe().into_iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)))?;
        Some(self.candidates[best].chunk.clone())
    }

    /// A task of this chunk took `bytes`, its input included, and `seconds`.
    ///
    /// # Errors
    /// The chunk is not of the feasible set.
    pub fn observe(&mut self, chunk: &[u64], bytes: u64, seconds: f64) -> Result<(), PlanError> {
        let candidate = self.find(chunk)?;
        let task = Task { candidate, bytes: bytes.max(1) as f64, seconds: seconds.max(1e-9) };
        self.observed.push(task);
        if task.bytes > self.budget {
            self.over.push(self.candidates[candidate].block.clone());
        }
        let row = |of: fn(&Task) -> f64| {
            let scale = of(&self.observed[0]) / of(&task);
            self.relative(candidate).map(|part| part * scale)
        };
        let (bytes_row, seconds_row) = (row(|task| task.bytes), row(|task| task.seconds));
        self.bytes.add(&bytes_row, 1.0);
        if seconds.is_finite() {
            self.seconds.add(&seconds_row, 1.0);
        }
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
        let (bytes, seconds) = (self.bytes_posterior(), self.seconds_posterior());
        let expected =
            |posterior: Posterior| posterior.at(&self.relative(candidate)) * self.observed[0].bytes;
        Ok(Belief {
            chunk: chunk.to_vec(),
            upper_bytes: bytes.as_ref().map(|posterior| self.upper(candidate, posterior)),
            bytes: bytes.map(expected),
            seconds: seconds.map(|posterior| self.job_seconds(candidate, &posterior.mean, 0.0)),
        })
    }

    fn find(&self, chunk: &[u64]) -> Result<usize, PlanError> {
        let found = self.candidates.iter().position(|candidate| candidate.chunk == chunk);
        found.ok_or_else(|| {
            PlanError::Request(format!(
                "{} is not one of the chunk shapes to choose from",
                crate::model::joined(chunk)
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

    /// What the bytes of a task stay below: the posterior's bound; but no more than a task that was
    /// observed took times the growth of its cells, as memory grows no faster than the block or
    /// what comes out of it; and for a chunk that was observed itself, the most it took.
    fn upper(&self, candidate: usize, posterior: &Posterior) -> f64 {
        let row = self.relative(candidate);
        let first = self.observed[0].bytes;
        let bound = posterior.quantile(&row, posterior.at(&row).abs(), 1.0 - RISK) * first;
        let own = self.observed.iter().filter(|task| task.candidate == candidate);
        let own = own.map(|task| task.bytes).fold(0.0, f64::max);
        if own > 0.0 {
            return own * GROWTH_MARGIN;
        }
        let grown = self.observed.iter().map(|task| task.bytes * self.growth(task.candidate, candidate));
        grown.fold(bound.max(posterior.at(&row) * first), f64::min)
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

    /// Parts of a candidate over those of the first one that was observed.
    fn relative(&self, candidate: usize) -> [f64; 3] {
        let first = self.observed.first().map_or(candidate, |task| task.candidate);
        let (own, first) = (&self.candidates[candidate].parts, &self.candidates[first].parts);
        std::array::from_fn(|part| own[part] / first[part])
    }

    fn bytes_posterior(&self) -> Option<Posterior> {
        let known = self.bytes.count > 0;
        let prior = Prior::new(BYTES_NOISE, BYTES_FIRM, &[PART; 3]);
        known.then(|| Posterior::of(&prior, &self.bytes)).flatten()
    }

    fn seconds_posterior(&self) -> Option<Posterior> {
        let known = self.seconds.count > 0;
        let prior = Prior::new(SECONDS_NOISE, SECONDS_FIRM, &[PART; 3]);
        known.then(|| Posterior::of(&prior, &self.seconds)).flatten()
    }

    /// Seconds of the whole job, by weights and the shape's own departure from them: what its own
    /// tasks say, as far as there are any, and `draw` standard deviations of what is left unknown.
    fn job_seconds(&self, candidate: usize, weights: &[f64], draw: f64) -> f64 {
        let first = self.observed.first().map_or(1.0, |task| task.seconds);
        let expected: f64 = self.relative(candidate).iter().zip(weights).map(|(part, w)| part * w).sum();
        // No draw makes a task faster than a tenth of what its volume took at best so far.
        let cell = |task: &Task| task.seconds / self.candidates[task.candidate].parts[2];
        let best_cell = self.observed.iter().map(cell).fold(f64::INFINITY, f64::min);
        let expected = (expected * first).max(best_cell * self.candidates[candidate].parts[2] / 10.0);
        let own = self.observed.iter().filter(|task| task.candidate == candidate);
        let departures: Vec<f64> = own.map(|task| (task.seconds / expected).ln()).collect();
        // Normal–normal: the shape's own deviation, and the noise of each task.
        let precision = 1.0 / OWN_SECONDS.powi(2) + departures.len() as f64 / SECONDS_NOISE.powi(2);
        let mean = departures.iter().sum::<f64>() / SECONDS_NOISE.powi(2) / precision;
        let unknown = precision.sqrt().recip();
        self.candidates[candidate].rounds * expected * (mean + draw * unknown).exp()
    }
}

/// 1, half the surface, and the volume of a block.
fn parts(block: &[u64]) -> [f64; 3] {
    let volume: f64 = block.iter().map(|&n| n as f64).product();
    [1.0, block.iter().map(|&n| volume / n as f64).sum(), volume]
}

#[cfg(test)]
mod tests;
