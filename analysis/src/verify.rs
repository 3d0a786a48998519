//! Proof: what a run that a law was not fitted on says about it (DESIGN §8).

use crate::law::align::View;
use crate::law::{Size, volume};
use crate::model::{Body, Law, Proof};
use crate::profile::{Event, MIN_BYTES, Run};

/// A verification run has at least this many times the largest training volume …
const MIN_VOLUME_RATIO: u128 = 8;
/// … and in every dimension that varies at least this many tenths of the largest trained length.
const MIN_LENGTH_TENTHS: u128 = 18;
/// Agreement that makes a law exact.
const EXACT: f64 = 0.001;
/// How far below the law a run may stay for the law to count as its worst case.
const WORST_CASE: f64 = 0.05;
/// Largest size at which a buffer may stop growing (NumPy's have 8,192 elements, of 16 bytes at most).
const MAX_CAP: u64 = 1 << 20;
/// Fewest distinct shapes a law is fitted on.
pub const MIN_SHAPES: usize = 3;

/// Splits runs into those to fit on and those to verify with: the largest shape, if it is far
/// enough from all others and they are enough by themselves; else nothing to verify with.
pub fn split(points: &[Vec<u64>]) -> (Vec<usize>, Vec<usize>) {
    let everything = || ((0..points.len()).collect(), Vec::new());
    let Some(largest) = points.iter().max_by_key(|point| volume(point)) else { return everything() };
    let (held_out, fitted): (Vec<usize>, Vec<usize>) =
        (0..points.len()).partition(|&run| &points[run] == largest);
    let others: std::collections::BTreeSet<&Vec<u64>> = fitted.iter().map(|&run| &points[run]).collect();
    let far = others.iter().all(|other| is_far(largest, other));
    if others.len() >= MIN_SHAPES && far { (fitted, held_out) } else { everything() }
}

/// True if `shape` is far enough from `trained` to prove anything.
pub fn is_far(shape: &[u64], trained: &[u64]) -> bool {
    let large = volume(shape) >= volume(trained).saturating_mul(MIN_VOLUME_RATIO);
    let long = |(&n, &trained): (&u64, &u64)| u128::from(n) * 10 >= u128::from(trained) * MIN_LENGTH_TENTHS;
    large && shape.iter().zip(trained).all(long)
}

/// What `run` at `point` proves about a law; `None` if it contradicts the law.
pub fn prove(law: &Law, run: &Run, point: &[u64]) -> Option<Proof> {
    let measured = run.span.working_peak_bytes as f64;
    let predicted = law.bytes(point).ok()?.working as f64;
    let error = (predicted - measured) / measured.max(1.0);
    let shape = point.to_vec();
    let sequence = match &law.body {
        Body::Symbolic(sequence) => sequence,
        Body::Regression(regression) => {
            let within = error.abs() <= 2.0 * regression.error + EXACT;
            return within.then(|| Proof::of_regression(regression));
        }
    };
    // A fitted size that is nothing beside the peak spoils no proof.
    let counts = |size: &&Size| {
        let bytes = size.at(point).map_or(f64::INFINITY, |bytes| bytes as f64);
        !matches!(size, Size::Fitted(_)) || bytes > EXACT * measured
    };
    let sizes = || sequence.sizes.iter().chain([&law.residual]).filter(counts);
    let within_worst_case = (-EXACT..=WORST_CASE).contains(&error);
    if sizes().any(|size| matches!(size, Size::Fitted(_))) {
        return within_worst_case.then_some(Proof::Calibrated { runs: law.trained_on.len() });
    }
    if error.abs() <= EXACT && !sizes().any(Size::is_undetermined) {
        return Some(Proof::Exact { shape, error: error.abs() });
    }
    within_worst_case.then_some(Proof::WorstCase { shape, error })
}

/// Drops those alternatives of a law's sizes that a further run rules out, block by block, and
/// notices buffers that have stopped growing; leaves blocks as they are where the run took another
/// course.
pub fn settle(law: &mut Law, run: &Run, point: &[u64], view: Option<&View>) {
    for (output, seen) in law.outputs.iter_mut().zip(&run.span.outputs) {
        for (axis, &length) in output.shape.iter_mut().zip(&seen.shape) {
            settle_size(axis, length, point);
        }
    }
    let (Body::Symbolic(sequence), Some(view)) = (&mut law.body, view) else { return };
    let sized = view.of(&run.program);
    let first = usize::from(!view.aside.is_empty()); // a step of its own
    let steps: Vec<(usize, bool)> =
        sequence.steps.iter().skip(first).filter_map(|&step| sequence.step(step)).collect();
    let events = &sized.course.events;
    let alike = |(event, step): (&Event, &(usize, bool))| matches!(event, Event::Alloc(_)) == step.1;
    if steps.len() != events.len() || !events.iter().zip(&steps).all(alike) {
        return;
    }
    for (event, (size, _)) in events.iter().zip(steps) {
        if let Event::Alloc(block) = event {
            settle_size(&mut sequence.sizes[size], sized.bytes[*block], point);
        }
    }
}

fn settle_size(size: &mut Size, bytes: u64, point: &[u64]) {
    let Size::Exact { form, others } = size else { return };
    others.retain(|other| other.at(point) == Some(u128::from(bytes)));
    let expected = form.at(point);
    if expected == Some(u128::from(bytes)) {
        return;
    }
    if !others.is_empty() {
        *form = others.remove(0);
    } else if (MIN_BYTES..=MAX_CAP).contains(&bytes)
        && bytes.is_power_of_two()
        && expected > Some(u128::from(bytes))
    {
        *size = Size::Capped { form: form.clone(), cap: bytes };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_far_run_is_held_out() {
        let small = [vec![41, 43, 47], vec![53, 44, 49], vec![48, 55, 59]];
        let with = |last: Vec<u64>| [small.as_slice(), &[last.clone(), last]].concat();
        assert_eq!(split(&with(vec![100, 110, 120])).1, vec![3, 4]);
        // Long enough in two directions only; or not large enough.
        assert!(split(&with(vec![90, 300, 300])).1.is_empty());
        assert!(split(&with(vec![96, 100, 107])).1.is_empty());
        assert!(split(&with(vec![100, 110, 120])[1..]).1.is_empty());
    }
}
