//! How far the proof of a law reaches.

use std::fmt;

use crate::model::{Body, Law, Proof, Variable};
use crate::shape::{Point, volume};

/// The part of a peak that proofs forgive.
pub(super) const NEGLIGIBLE: f64 = 0.001;
/// How much longer than in the runs one axis may be in proportion to another.
const ELONGATION: f64 = 2.0;

/// Why what a law was proven by says nothing of a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Doubt {
    NeverVaried(String),
    Thin(String),
    Tiny,
    Elongated(String, String),
    BeyondRegression,
    BeyondChoices,
    BeyondCalibration,
    RestsOnFits,
    NoRun,
}

impl fmt::Display for Doubt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::NeverVaried(axis) => write!(out, "{axis} had one value in all runs"),
            Doubt::Thin(axis) => write!(out, "{axis} is less than half of what it was in any run"),
            Doubt::Tiny => write!(out, "it is smaller than any run"),
            Doubt::Elongated(long, short) => {
                write!(out, "{long} is over twice as long next to {short} as in any run")
            }
            Doubt::BeyondRegression => {
                write!(out, "it is larger than any run, and a regression says nothing there")
            }
            Doubt::BeyondChoices => write!(
                out,
                "libraries took several courses in the runs, and it is beyond those that verified the law"
            ),
            Doubt::BeyondCalibration => write!(out, "it is larger than any run that calibrated the bound"),
            Doubt::RestsOnFits => write!(out, "its peak there depends on a block that no form gives"),
            Doubt::NoRun => write!(out, "no run has verified the law"),
        }
    }
}

/// The proof as far as it reaches: a regression says nothing beyond the volumes it was fitted on,
/// no law anything about a length that never varied in its runs. What was proven for large arrays
/// need not hold for thin or tiny ones, where libraries take other ways (NumPy below 256 KiB; axes
/// of length 1), nor for ones far longer in one direction, nor, where a library chooses its course
/// by the lengths, beyond those that were verified; and a run proves nothing about other data.
pub(crate) fn confidence(law: &Law, shape: &Point) -> Proof {
    match doubt(law, shape) {
        Some(_) => Proof::Unverified,
        None => law.proof.clone(),
    }
}

/// Why a shape is `unverified`, in words; `None` if it is not.
pub(super) fn reason(law: &Law, shape: &Point) -> Option<String> {
    doubt(law, shape).map(|doubt| doubt.to_string())
}

fn doubt(law: &Law, shape: &Point) -> Option<Doubt> {
    let axes = || law.variables.iter().zip(shape);
    let named = |(variable, _): (&Variable, &u64)| variable.name.clone();
    let never_varied =
        axes().find(|(variable, n)| variable.min == variable.max && **n != variable.min).map(named);
    if let Some(axis) = never_varied {
        return Some(Doubt::NeverVaried(axis));
    }
    if law.proof == Proof::Unverified {
        return Some(Doubt::NoRun);
    }
    let thin = || axes().find(|(variable, n)| **n < variable.min.div_ceil(2)).map(named);
    let volumes = || law.trained_on.iter().map(|run| volume(&run.shape));
    let beyond = volumes().max().is_none_or(|largest| volume(shape) > largest);
    let tiny = || volumes().min().is_none_or(|smallest| volume(shape) < smallest);
    let regression = matches!(law.body, Body::Regression(_));
    let calibrated = matches!(law.proof, Proof::Calibrated { .. });
    (regression && beyond)
        .then_some(Doubt::BeyondRegression)
        .or_else(|| thin().map(Doubt::Thin))
        .or_else(|| (!regression && tiny()).then_some(Doubt::Tiny))
        .or_else(|| elongated(law, shape))
        .or_else(|| (!law.choices.is_empty() && !was_verified(law, shape)).then_some(Doubt::BeyondChoices))
        .or_else(|| (calibrated && beyond).then_some(Doubt::BeyondCalibration))
        .or_else(|| rests_on_fits(law, shape).then_some(Doubt::RestsOnFits))
}

fn elongated(law: &Law, shape: &Point) -> Option<Doubt> {
    let ratio = |shape: &Point, i: usize, j: usize| shape[i] as f64 / shape[j].max(1) as f64;
    let seen = |i, j| law.shapes().map(|shape| ratio(shape, i, j)).fold(0.0, f64::max);
    let mut pairs = (0..shape.len()).flat_map(|i| (0..shape.len()).map(move |j| (i, j)));
    let (long, short) = pairs.find(|&(i, j)| ratio(shape, i, j) > ELONGATION * seen(i, j))?;
    let name = |axis: usize| law.variables[axis].name.clone();
    Some(Doubt::Elongated(name(long), name(short)))
}

/// True if a law was proven where its fitted sizes did not matter, and here they do.
fn rests_on_fits(law: &Law, shape: &Point) -> bool {
    let peak = || match &law.body {
        Body::Symbolic(sequence) => sequence.peak_bytes(shape),
        Body::Regression(regression) => regression.at(shape),
    };
    matches!(law.proof, Proof::Exact { .. } | Proof::WorstCase { .. })
        && peak().is_none_or(|bytes| law.rests_on_fits(shape, NEGLIGIBLE * bytes as f64))
}

fn was_verified(law: &Law, shape: &Point) -> bool {
    let within = |seen: &Point| seen.iter().zip(shape).all(|(&seen, &n)| n <= seen);
    law.shapes().any(within)
}
