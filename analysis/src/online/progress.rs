//! How far a running span has got in its law, and what its peak will be if it goes on so.
//!
//! The span's allocations and releases are aligned with the law's sequence as they come, by
//! dynamic programming over the positions in it (edit distance; Wagner and Fischer 1974): an event
//! is the law's next step, or extra; a step may be missing; and where the law holds the same blocks
//! at two positions, what lies between may be repeated or left out (a loop). The forecast is what
//! the span holds now and what the law adds from there on, scaled by what was seen so far against
//! what the law said of it. So blocks the law does not know count, and an input larger than
//! announced shows at the first large block.

use serde::Serialize;

use crate::error::Error;
use crate::law::{Point, Sequence};
use crate::model::{Body, Law, Proof};

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
/// An unproven law of whose blocks nothing was seen yet is believed to say at most so much too much.
const UNSEEN: f64 = 0.9;
/// The scale is believed to be the law's until this part of its peak was seen.
const FIRST_PART: f64 = 0.02;

/// Where a span stands. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Forecast {
    /// Peak of the span's working bytes at its end.
    pub peak_bytes: u64,
    /// The least that may be: by every plausible alignment, and a tenth less while nothing was seen of the
    /// blocks of an unproven law. Warnings go by it.
    pub least_bytes: u64,
    /// What the law says for the shape that was announced.
    pub law_bytes: u64,
    /// What the span holds now.
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
}

/// The law's sequence at a shape, without what is small.
#[derive(Debug, Clone, Default)]
struct Course {
    /// Bytes of the step's block, its logarithm, and whether the step allocates it.
    steps: Vec<(f64, f64, bool)>,
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
        let told = law.bytes(shape)?.working;
        let course = match &law.body {
            Body::Symbolic(sequence) => Course::of(sequence, shape, plain).unwrap_or_default(),
            Body::Regression(_) => Course::default(),
        };
        let least_law_bytes = match &law.body {
            Body::Regression(regression) => (told as f64 * (1.0 - 2.0 * regression.error)).max(0.0) as u64,
            Body::Symbolic(_) => 0,
        };
        let belief = told as f64 / plain.max(1) as f64;
        let start = Position { cost: 0.0, expected: 0.0, seen: 0.0, log_scale: belief.max(1e-9).ln() };
        let mut positions = vec![None; course.steps.len() + 1];
        positions[0] = Some(start);
        Ok(Tracker {
            course,
            positions,
            live: 0,
            small: 0,
            peak: 0,
            law_bytes: told,
            least_law_bytes,
            proven: matches!(law.proof, Proof::Exact { .. } | Proof::WorstCase { .. }),
            belief,
        })
    }

    /// The span allocated a block.
    pub fn allocated(&mut self, bytes: u64) {
        self.live = self.live.saturating_add(bytes);
        self.peak = self.peak.max(self.live);
        self.event(bytes, true);
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
        let peak_bytes = if steps == 0 { self.law_bytes } else { self.rising(at, scale) };
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
            let told = self.rising(at, position.log_scale.exp());
            let seen = self.proven || position.expected >= FIRST_PART * self.course.ahead[0];
            let told = if seen { told } else { (told as f64 * UNSEEN) as u64 };
            (position.cost <= PLAUSIBLE).then_some(told)
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
        // Small blocks are those of the law's peak, or what is held of them if that is more.
        let small = (self.law_bytes as f64 - self.belief * self.course.ahead[0]).max(self.small as f64);
        (self.live.saturating_sub(self.small) as f64 + rise * scale + small) as u64
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
            let extra = here.map(|position| position.paying(UNMATCHED));
            let missing = at.checked_sub(1).and_then(|before| next[before]).map(|p| p.paying(UNMATCHED));
            let matched =
                at.checked_sub(1).filter(|&step| self.course.steps[step].2 == allocates).and_then(|step| {
                    let jumped = alike[self.course.state[step]].map(|position| position.paying(JUMP));
                    let from = cheaper(self.positions[step], jumped)?;
                    Some(from.matching(self.course.steps[step], bytes as f64, log, self.first_part()))
                });
            next.push(cheaper(cheaper(matched, extra), missing));
        }
        let least = next.iter().flatten().map(|position| position.cost).fold(f64::INFINITY, f64::min);
        for position in &mut next {
            *position = position.map(|p| p.paying(-least)).filter(|p| p.cost <= HOPELESS);
        }
        self.positions = next;
    }

    /// What the scale's prior weighs: bytes, by the law and as believed.
    fn first_part(&self) -> (f64, f64) {
        let part = FIRST_PART * self.course.ahead[0];
        (part, part * self.belief)
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
    fn paying(self, cost: f64) -> Position {
        Position { cost: self.cost + cost, ..self }
    }

    fn matching(self, step: (f64, f64, bool), bytes: f64, log: f64, prior: (f64, f64)) -> Position {
        let (law_bytes, law_log, allocates) = step;
        let misfit = (MISFIT * (log - law_log - self.log_scale).abs()).min(MOST_MISFIT);
        let mut position = self.paying(misfit);
        if allocates {
            position.expected += law_bytes;
            position.seen += bytes;
            position.log_scale = ((position.seen + prior.1) / (position.expected + prior.0)).ln();
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
            course.steps.push((bytes, bytes.ln(), allocates));
        }
        course.states = known.len();
        course.ahead = course.live.clone();
        for at in (0..steps.len()).rev() {
            course.ahead[at] = course.ahead[at].max(course.ahead[at + 1]);
        }
        Some(course)
    }
}
