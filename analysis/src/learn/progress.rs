//! How far a running span has got in its law, and what its peak will be if it goes on so.
//!
//! The span's allocations and releases are aligned with the law's sequence as they come, by dynamic
//! programming over the positions in it (edit distance; Wagner and Fischer 1974): an event is the
//! law's next step, or extra; a step may be missing; and where the law has the same blocks at two
//! positions, what lies between may be repeated or left out (a loop). The forecast is what the span
//! has live now and what the law adds from there on, scaled by what was seen so far against what
//! the law said of it. So blocks the law does not know count, and an input larger than announced
//! shows at the first large block.

use serde::Serialize;

use crate::error::Error;
use crate::law::Sequence;
use crate::model::{Body, Law, Proof};
use crate::shape::Point;

/// Blocks below this part of the law's peak are not aligned, only counted: 1/200.
const SMALL: u64 = 200;
/// Longer sequences are not followed: every event is compared with every step.
const MOST_STEPS: usize = 1024;

/// What it costs that an event is no step of the law, or a step is missing.
const UNMATCHED: f64 = 1.0;
/// What it costs to repeat or leave out steps that leave nothing behind.
const JUMP: f64 = 0.7;
/// What it costs that a block has another size than the scale seen so far gives it: per
/// logarithm of the ratio, and at most: less than an extra block.
const MISFIT: f64 = 6.0;
const MOST_MISFIT: f64 = 0.9;
/// Positions this much worse than the best may still be the true one: warnings go by all of them.
const PLAUSIBLE: f64 = 1.2;
/// Positions this much worse than the best are given up.
const HOPELESS: f64 = 10.0;
/// The least part of what an unproven law says that is believed until some of its blocks were seen.
const UNSEEN: f64 = 0.9;
/// The scale is believed to be the law's until this part of its peak was seen.
const FIRST_PART: f64 = 0.02;

/// Where a span stands. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Forecast {
    /// Peak of the span's working bytes at its end, one-time bytes of a first call included.
    pub peak_bytes: u64,
    /// The least that may be: by every plausible alignment, without one-time bytes that are still
    /// to come, and a tenth less while nothing was seen of the blocks of an unproven law. A warning
    /// is given when this exceeds the limit.
    pub least_bytes: u64,
    /// What the law says for the shape that was announced.
    pub law_bytes: u64,
    /// What the span has live now.
    pub live_bytes: u64,
    /// Part of the law's steps that are done, 0 to 1; `None` for a law that has no steps.
    pub progress: Option<f64>,
    /// What was seen of the law's blocks over what it says of them.
    pub scale: f64,
}

/// Follows one span.
#[derive(Debug, Clone)]
pub struct Tracker {
    course: Course,
    positions: Vec<Option<Position>>,
    live: u64,
    small: u64,
    peak: u64,
    law_bytes: u64,
    /// The same less twice the law's error, for a law without steps.
    least_law_bytes: u64,
    /// A run proved the law.
    proven: bool,
    /// What an unbiased law says over what this one does.
    belief: f64,
    /// One-time bytes that the law leaves out and the span has not allocated: of a first call.
    one_time: u64,
    /// The largest blocks of these.
    one_time_blocks: Vec<u64>,
}

/// The law's sequence at a shape, without what is small.
#[derive(Debug, Clone, Default)]
struct Course {
    steps: Vec<Step>,
    /// Live bytes before each step and at the end.
    live: Vec<f64>,
    /// The most that is live from there on.
    ahead: Vec<f64>,
    /// Positions at which the same blocks are live have the same number.
    state: Vec<usize>,
    states: usize,
    /// Smaller blocks are not in it.
    least: u64,
}

/// A step of the law.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Bytes of its block.
    bytes: f64,
    /// Their logarithm.
    log: f64,
    /// It allocates the block.
    allocates: bool,
}

/// Bytes that the scale is believed to rest on before any were seen.
#[derive(Debug, Clone, Copy)]
struct Prior {
    /// By the law.
    expected: f64,
    /// As believed.
    seen: f64,
}

/// The span may stand here in the law.
#[derive(Debug, Clone, Copy)]
struct Position {
    cost: f64,
    /// Bytes of the steps that were matched, by the law and as seen.
    expected: f64,
    seen: f64,
    /// Logarithm of the scale they give.
    log_scale: f64,
}

impl Tracker {
    /// For a span of the law's operator at a shape.
    ///
    /// # Errors
    /// A shape the law has no value for.
    pub fn new(law: &Law, shape: &Point) -> Result<Tracker, Error> {
        let plain = law.plain_bytes(shape)?.working;
        let law_bytes = law.bytes(shape)?.working;
        let course = match &law.body {
            Body::Symbolic(sequence) => Course::of(sequence, shape, plain).unwrap_or_default(),
            Body::Regression(_) => Course::default(),
        };
        let least_law_bytes = match &law.body {
            Body::Regression(regression) => {
                (law_bytes as f64 * (1.0 - 2.0 * regression.error)).max(0.0) as u64
            }
            Body::Symbolic(_) => 0,
        };
        let belief = law_bytes as f64 / plain.max(1) as f64;
        let start = Position { cost: 0.0, expected: 0.0, seen: 0.0, log_scale: belief.max(1e-9).ln() };
        let mut positions = vec![None; course.steps.len() + 1];
        positions[0] = Some(start);
        Ok(Tracker {
            course,
            positions,
            live: 0,
            small: 0,
            peak: 0,
            law_bytes,
            least_law_bytes,
            proven: matches!(law.proof, Proof::Exact { .. } | Proof::WorstCase { .. }),
            belief,
            one_time: 0,
            one_time_blocks: Vec::new(),
        })
    }

    /// The same for the first call in its process, which allocates one-time blocks in addition.
    ///
    /// # Errors
    /// As [`Tracker::new`].
    pub fn of_first_call(law: &Law, shape: &Point) -> Result<Tracker, Error> {
        let one_time_blocks = law.one_time.blocks.iter().map(|block| block.bytes).collect();
        let tracker = Tracker::new(law, shape)?;
        Ok(Tracker { one_time: law.one_time_bytes(shape), one_time_blocks, ..tracker })
    }

    /// The span allocated a block.
    pub fn allocated(&mut self, bytes: u64) {
        self.live = self.live.saturating_add(bytes);
        self.peak = self.peak.max(self.live);
        if !self.is_one_time(bytes) {
            self.event(bytes, true);
        }
    }

    /// A block that the span had allocated was released.
    pub fn released(&mut self, bytes: u64) {
        self.live = self.live.saturating_sub(bytes);
        self.event(bytes, false);
    }

    /// Where it stands.
    pub fn forecast(&self) -> Forecast {
        let steps = self.course.steps.len();
        let best = self.best();
        let (at, scale) = best.map_or((0, self.belief), |(at, position)| (at, position.log_scale.exp()));
        let peak_bytes = if steps == 0 {
            self.law_bytes.saturating_add(self.one_time)
        } else {
            self.rising(at, scale).saturating_add(self.one_time_ahead(at))
        };
        Forecast {
            peak_bytes: peak_bytes.max(self.peak),
            least_bytes: self.least().max(self.peak),
            law_bytes: self.law_bytes,
            live_bytes: self.live,
            progress: (steps > 0).then(|| at as f64 / steps as f64),
            scale,
        }
    }

    fn least(&self) -> u64 {
        let plausible = self.positions.iter().enumerate().filter_map(|(at, position)| {
            let position = (*position)?;
            let peak = self.rising(at, position.log_scale.exp());
            let seen = self.proven || position.expected >= FIRST_PART * self.course.ahead[0];
            let peak = if seen { peak } else { (peak as f64 * UNSEEN) as u64 };
            (position.cost <= PLAUSIBLE).then_some(peak)
        });
        let steps = self.course.steps.len();
        if steps == 0 { self.least_law_bytes } else { plausible.min().unwrap_or(0) }
    }

    /// The highest that is still to come, by the law from a position on.
    fn rising(&self, at: usize, scale: f64) -> u64 {
        let rise = self.course.ahead[at] - self.course.live[at];
        if rise <= 0.0 {
            return self.live;
        }
        // Small blocks are those of the law's peak, or what is live of them if that is more.
        let small = (self.law_bytes as f64 - self.belief * self.course.ahead[0]).max(self.small as f64);
        (self.live.saturating_sub(self.small) as f64 + rise * scale + small) as u64
    }

    /// One-time bytes that are still to come before the peak, at a position.
    fn one_time_ahead(&self, at: usize) -> u64 {
        let is_ahead = self.course.ahead[at] > self.course.live[at];
        if is_ahead { self.one_time } else { 0 }
    }

    /// Takes a block that is one of the one-time blocks off these: it is no step of the law.
    fn is_one_time(&mut self, bytes: u64) -> bool {
        let known = self.one_time_blocks.iter().position(|block| *block == bytes);
        if let Some(known) = known {
            self.one_time_blocks.swap_remove(known);
            self.one_time = self.one_time.saturating_sub(bytes);
        }
        known.is_some()
    }

    fn best(&self) -> Option<(usize, Position)> {
        let known = self.positions.iter().enumerate().filter_map(|(at, position)| Some((at, (*position)?)));
        known.min_by(|a, b| a.1.cost.total_cmp(&b.1.cost))
    }

    /// Aligns an event: one row of the table of edit distances.
    fn event(&mut self, bytes: u64, allocates: bool) {
        if bytes < self.course.least.max(1) {
            self.small = if allocates { self.small + bytes } else { self.small.saturating_sub(bytes) };
            return;
        }
        if self.course.steps.is_empty() {
            return;
        }
        let log = (bytes as f64).ln();
        let alike = self.best_of_states();
        let mut next: Vec<Option<Position>> = Vec::with_capacity(self.positions.len());
        for (at, here) in self.positions.iter().enumerate() {
            let extra = here.map(|position| position.with_cost(UNMATCHED));
            let missing = at.checked_sub(1).and_then(|before| next[before]).map(|p| p.with_cost(UNMATCHED));
            let matched = at
                .checked_sub(1)
                .filter(|&step| self.course.steps[step].allocates == allocates)
                .and_then(|step| {
                    let jumped = alike[self.course.state[step]].map(|position| position.with_cost(JUMP));
                    let from = cheaper(self.positions[step], jumped)?;
                    Some(from.matching(self.course.steps[step], bytes as f64, log, self.prior()))
                });
            next.push(cheaper(cheaper(matched, extra), missing));
        }
        let least = next.iter().flatten().map(|position| position.cost).fold(f64::INFINITY, f64::min);
        for position in &mut next {
            *position = position.map(|p| p.with_cost(-least)).filter(|p| p.cost <= HOPELESS);
        }
        self.positions = next;
    }

    /// The weight of the scale's prior: bytes, by the law and as believed.
    fn prior(&self) -> Prior {
        let part = FIRST_PART * self.course.ahead[0];
        Prior { expected: part, seen: part * self.belief }
    }

    fn best_of_states(&self) -> Vec<Option<Position>> {
        let mut best = vec![None; self.course.states];
        for (at, position) in self.positions.iter().enumerate() {
            let known = &mut best[self.course.state[at]];
            *known = cheaper(*known, *position);
        }
        best
    }
}

impl Position {
    fn with_cost(self, cost: f64) -> Position {
        Position { cost: self.cost + cost, ..self }
    }

    fn matching(self, step: Step, bytes: f64, log: f64, prior: Prior) -> Position {
        let misfit = (MISFIT * (log - step.log - self.log_scale).abs()).min(MOST_MISFIT);
        let mut position = self.with_cost(misfit);
        if step.allocates {
            position.expected += step.bytes;
            position.seen += bytes;
            position.log_scale = ((position.seen + prior.seen) / (position.expected + prior.expected)).ln();
        }
        position
    }
}

fn cheaper(a: Option<Position>, b: Option<Position>) -> Option<Position> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.cost < a.cost { b } else { a }),
        (a, b) => a.or(b),
    }
}

impl Course {
    /// `None` where a size does not fit, or there are too many steps or none.
    fn of(sequence: &Sequence, shape: &Point, peak: u64) -> Option<Course> {
        let least = sequence.threshold_bytes.max(peak / SMALL);
        let sizes = sequence.sizes.iter().map(|size| size.at(shape)).collect::<Option<Vec<u128>>>()?;
        let steps = sequence.steps.iter().filter_map(|&step| sequence.step(step));
        let steps: Vec<(usize, bool)> = steps.filter(|(size, _)| sizes[*size] >= u128::from(least)).collect();
        if steps.is_empty() || steps.len() > MOST_STEPS {
            return None;
        }
        let mut course = Course { least, ..Course::default() };
        let mut counts = vec![0i64; sizes.len()];
        let mut known = std::collections::HashMap::new();
        let mut live = 0.0;
        for at in 0..=steps.len() {
            let number = known.len();
            course.state.push(*known.entry(counts.clone()).or_insert(number));
            course.live.push(live);
            let Some(&(size, allocates)) = steps.get(at) else { break };
            let bytes = sizes[size] as f64;
            counts[size] += if allocates { 1 } else { -1 };
            live += if allocates { bytes } else { -bytes };
            course.steps.push(Step { bytes, log: bytes.ln(), allocates });
        }
        course.states = known.len();
        course.ahead = course.live.clone();
        for at in (0..steps.len()).rev() {
            course.ahead[at] = course.ahead[at].max(course.ahead[at + 1]);
        }
        Some(course)
    }
}
