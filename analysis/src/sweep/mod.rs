//! Which shape to run an operator at next, so that its law comes out determined and proven by the
//! fewest and cheapest runs: smallest first, never one that is predicted to exceed the budget.
//!
//! [`next`] is a function of what has been run so far and nothing else, so a sweep that was
//! interrupted goes on where it was.

mod forecast;
mod seen;
mod shapes;
mod stop;

pub use shapes::Range;
pub use stop::Stop;

use crate::fit::verify;
use crate::law::MIN_SHAPES;
use crate::law::Size;
use crate::model::{Body, Law, Proof};
use crate::profile::Profile;
use crate::shape::volume;

use forecast::Forecast;
use seen::Seen;
use shapes::Steps;

/// Without a verification run one more than the least number of shapes has to agree.
const UNVERIFIED_SHAPES: usize = MIN_SHAPES + 1;
/// A shape that failed, and all that were predicted to need as much less this share, are too large.
const BELOW_FAILED: f64 = 0.8;
/// How many times smaller the next shape is, where one is too large.
const SHRINK: f64 = 1.3;

/// What a sweep may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most runs.
    pub runs: usize,
    /// Bytes that one run may take, everything in its processes counted.
    pub budget_bytes: u64,
}

/// A run of the command at one shape.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The shape that the command was given.
    pub shape: Vec<u64>,
    /// What came of it; `None`: it was killed, or failed.
    pub recorded: Option<Recorded>,
}

/// A run that ended well.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Peak of its processes, bytes.
    pub peak_bytes: u64,
    /// Its spans.
    pub profile: Profile,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Run the command at this shape.
    Run(Vec<u64>),
    /// Nothing that is worth its cost is left to run.
    Stop(Stop),
}

/// Chooses the next shape, given what was tried and the laws that the recorded runs have (none
/// before there are three).
///
/// Training shapes: three that double in volume, arrays of 256 KiB or more where the range allows
/// it, lengths without common divisors, no cubes, two of them leaning to other axes. Then, while some block has several forms, shapes
/// at which these differ; then one verification run of at least 8 times the largest volume and 1.8
/// times every length.
pub fn next(range: &Range, limits: Limits, attempts: &[Attempt], laws: &[Law]) -> Next {
    Planner::new(range, limits, attempts, laws).next()
}

/// Chooses the shape for a run with other data values, after the sweep has ended: the middle one of
/// the training shapes, or the largest below it that may be afforded. `attempts` has the runs with
/// other data values so far, too, at the end.
pub fn next_data_values(range: &Range, limits: Limits, attempts: &[Attempt], laws: &[Law]) -> Next {
    Planner::new(range, limits, attempts, laws).next_data_values()
}

struct Planner<'a> {
    range: &'a Range,
    limits: Limits,
    /// Shapes that were recorded, and those that failed.
    recorded: Vec<Vec<u64>>,
    failed: Vec<&'a [u64]>,
    laws: &'a [Law],
    seen: Vec<Seen<'a>>,
    forecast: Forecast,
    budget: f64,
}

impl<'a> Planner<'a> {
    fn new(range: &'a Range, limits: Limits, attempts: &'a [Attempt], laws: &'a [Law]) -> Planner<'a> {
        let good =
            || attempts.iter().filter_map(|attempt| Some((&attempt.shape, attempt.recorded.as_ref()?)));
        let failed = attempts.iter().filter(|attempt| attempt.recorded.is_none());
        let failed: Vec<&[u64]> = failed.map(|attempt| attempt.shape.as_slice()).collect();
        let runs: Vec<(&[u64], &Profile)> =
            good().map(|(shape, run)| (shape.as_slice(), &run.profile)).collect();
        let forecast = Forecast::new(good().map(|(shape, run)| (shape.clone(), run.peak_bytes)).collect());
        let mut planner = Planner {
            range,
            limits,
            recorded: good().map(|(shape, _)| shape.clone()).collect(),
            failed,
            laws,
            seen: laws.iter().filter_map(|law| Seen::new(law, &runs)).collect(),
            forecast,
            budget: limits.budget_bytes as f64,
        };
        // What failed needed more than there was, whatever was predicted; what ran did not.
        let needed = planner.failed.iter().map(|shape| planner.needs(shape) * BELOW_FAILED);
        let ran = good().map(|(_, run)| run.peak_bytes as f64).fold(0.0, f64::max);
        planner.budget = needed.fold(f64::INFINITY, f64::min).max(ran).min(planner.budget);
        planner
    }

    fn next(&self) -> Next {
        let (trained, held_out) = verify::split(&self.recorded);
        let verified = !held_out.is_empty();
        if self.is_proved(verified) {
            return Next::Stop(Stop::Proved);
        }
        if self.recorded.len() + self.failed.len() >= self.limits.runs.max(MIN_SHAPES) {
            return Next::Stop(Stop::Runs(self.limits.runs));
        }
        if self.recorded.is_empty() && !self.failed.is_empty() {
            return self.smaller_than_failed();
        }
        if self.recorded.len() < MIN_SHAPES {
            return self.train(self.steps().volume(self.recorded.len()));
        }
        let trained: Vec<&[u64]> = trained.into_iter().map(|run| self.recorded[run].as_slice()).collect();
        let verification = if verified { Err(Stop::Contradicted) } else { self.verification(&trained) };
        // The last of the runs is for the verification.
        let spare = self.limits.runs - self.recorded.len() - self.failed.len();
        let may_train = spare > usize::from(verification.is_ok());
        if may_train && let Some(shape) = self.distinguishing(&trained, verified) {
            return Next::Run(shape);
        }
        match verification {
            Ok(shape) => Next::Run(shape),
            // A contradicted law, or one without a verification, gains by a run in the widest gap.
            Err(_) if verified || self.recorded.len() < UNVERIFIED_SHAPES || self.is_fitted() => {
                self.train(shapes::widest_gap(&trained))
            }
            Err(stop) => Next::Stop(stop),
        }
    }

    fn next_data_values(&self) -> Next {
        let Some(middle) = self.recorded.get(self.recorded.len().min(MIN_SHAPES) / 2) else {
            return Next::Stop(Stop::Failed);
        };
        let mut shapes: Vec<&Vec<u64>> =
            self.recorded.iter().filter(|shape| volume(shape) <= volume(middle)).collect();
        shapes.sort_by_key(|shape| std::cmp::Reverse(volume(shape)));
        match shapes.iter().find(|shape| self.is_affordable(shape)) {
            Some(&shape) => Next::Run(shape.clone()),
            None => Next::Stop(self.too_large(shapes.last().unwrap_or(&middle))),
        }
    }

    /// True if no further run could add to what the laws rest on.
    fn is_proved(&self, verified: bool) -> bool {
        let proved = |law: &Law| match law.proof {
            Proof::Exact { .. } => true,
            Proof::WorstCase { .. } => !is_undetermined(law),
            Proof::Calibrated { .. } => verified,
            Proof::Unverified => false,
        };
        !self.laws.is_empty() && self.laws.iter().all(proved)
    }

    /// True if some law is, or contains, a regression: more runs narrow it.
    fn is_fitted(&self) -> bool {
        self.laws.iter().any(|law| match &law.body {
            Body::Regression(_) => true,
            Body::Symbolic(sequence) => sequence.sizes.iter().any(|size| matches!(size, Size::Fitted(_))),
        })
    }

    /// Upper bound of what a run at this shape needs, bytes.
    fn needs(&self, shape: &[u64]) -> f64 {
        let by_law = self
            .seen
            .iter()
            .filter_map(|seen| Some(seen.needs(shape)? + self.forecast.beyond(|run| seen.needs(run))));
        by_law.fold(self.forecast.upper(shape), f64::max)
    }

    fn is_affordable(&self, shape: &[u64]) -> bool {
        let smaller = self.failed.iter().all(|failed| volume(shape) < volume(failed));
        smaller && self.needs(shape) <= self.budget
    }

    /// The range as far as it is predicted (not bounded) to fit the budget.
    fn affordable(&self) -> Range {
        let fits = |shape: &[u64]| {
            let smaller = self.failed.iter().all(|failed| volume(shape) < volume(failed));
            smaller && self.forecast.estimate(shape) <= self.budget
        };
        self.range.up_to(fits)
    }

    fn steps(&self) -> Steps {
        let first = self.recorded.iter().map(|shape| volume(shape)).min();
        Steps::new(&self.affordable(), first)
    }

    /// A training run at this volume, or the nearest below it that is affordable and new.
    fn train(&self, wished: f64) -> Next {
        let mut wished = wished.min(volume(&self.range.upper) as f64);
        let smallest = volume(&self.range.lower) as f64;
        let reach = self.affordable();
        let leaves_room = |shape: &[u64]| u64::from(self.leaves_room(&reach, shape));
        loop {
            let wished_shape = self.range.of_run(self.recorded.len(), wished);
            let shape = shapes::near(&wished_shape, self.range, &self.recorded, &leaves_room);
            if self.is_new(&shape) && self.is_affordable(&shape) {
                return Next::Run(shape);
            }
            if wished <= smallest {
                break;
            }
            wished = (wished / SHRINK).max(smallest);
        }
        let new = self.range.smallest().filter(|shape| self.is_new(shape));
        match new.min_by_key(|shape| volume(shape)) {
            None => Next::Stop(Stop::Exhausted),
            Some(shape) if self.is_affordable(&shape) => Next::Run(shape),
            Some(shape) => Next::Stop(self.too_large(&shape)),
        }
    }

    /// True if a run that is far from this one too is within reach.
    fn leaves_room(&self, reach: &Range, shape: &[u64]) -> bool {
        let recorded = self.recorded.iter().map(Vec::as_slice);
        reach.far_from(&recorded.chain([shape]).collect::<Vec<_>>()).is_some()
    }

    fn is_new(&self, shape: &[u64]) -> bool {
        !self.recorded.iter().any(|known| known == shape)
    }

    fn too_large(&self, shape: &[u64]) -> Stop {
        let needs_bytes = self.needs(shape).min(u64::MAX as f64) as u64;
        Stop::Budget { shape: shape.to_vec(), needs_bytes, budget_bytes: self.limits.budget_bytes }
    }

    /// Nothing has worked yet: half the volume, and at last the smallest shape of all.
    fn smaller_than_failed(&self) -> Next {
        let least = self.failed.iter().map(|shape| volume(shape)).min().unwrap_or(1);
        if least <= volume(&self.range.lower) {
            return Next::Stop(Stop::Failed);
        }
        let wished = least as f64 / 2.0;
        let mut shape = shapes::near(&self.range.at_volume(wished), self.range, &[], &|_| 0);
        if volume(&shape) >= least {
            shape.clone_from(&self.range.lower);
        }
        Next::Run(shape)
    }

    /// The smallest shape that proves something about laws trained on these, if it is affordable.
    fn verification(&self, trained: &[&[u64]]) -> Result<Vec<u64>, Stop> {
        let Some(least) = self.range.far_from(trained) else {
            return Err(Stop::Range { needed: shapes::least_far(trained) });
        };
        let beyond = Range { lower: least.clone(), upper: self.range.upper.clone() };
        let distinguished = |shape: &[u64]| self.distinguished(shape);
        let roomy = shapes::near(&least, &beyond, &self.recorded, &distinguished);
        let far = |shape: &Vec<u64>| trained.iter().all(|trained| verify::is_far(shape, trained));
        let candidates = [roomy, least].into_iter().filter(far).collect::<Vec<_>>();
        match candidates.iter().find(|shape| self.is_affordable(shape)) {
            Some(shape) => Ok(shape.clone()),
            None => Err(candidates.last().map_or(Stop::Proved, |shape| self.too_large(shape))),
        }
    }

    /// How many forms a run at this shape would distinguish.
    fn distinguished(&self, shape: &[u64]) -> u64 {
        self.seen.iter().map(|seen| seen.distinguished(shape)).sum()
    }

    /// The cheapest shape, no larger than training shapes may be, at which the most of the
    /// remaining forms differ; `None` if no shape distinguishes any.
    fn distinguishing(&self, trained: &[&[u64]], verified: bool) -> Option<Vec<u64>> {
        if !self.laws.iter().any(is_undetermined) {
            return None;
        }
        let steps = self.steps();
        let distinguished = |shape: &[u64]| self.distinguished(shape);
        let candidates = steps.volumes().map(|wished| {
            shapes::near(&self.range.at_volume(wished), self.range, &self.recorded, &distinguished)
        });
        // The run that verifies must stay far from all others.
        let largest = self.recorded.iter().max_by_key(|shape| volume(shape));
        let far = |shape: &Vec<u64>| !verified || largest.is_none_or(|last| verify::is_far(last, shape));
        let in_reach = |shape: &Vec<u64>| {
            let room = trained.iter().map(|trained| volume(trained)).max().unwrap_or(0);
            volume(shape) <= room.max(steps.top())
        };
        let usable = candidates
            .filter(|shape| self.is_new(shape) && far(shape) && in_reach(shape) && self.is_affordable(shape));
        let best =
            usable.map(|shape| (distinguished(&shape), std::cmp::Reverse(volume(&shape)), shape)).max()?;
        (best.0 > 0).then_some(best.2)
    }
}

fn is_undetermined(law: &Law) -> bool {
    match &law.body {
        Body::Symbolic(sequence) => sequence.sizes.iter().any(Size::is_undetermined),
        Body::Regression(_) => false,
    }
}
