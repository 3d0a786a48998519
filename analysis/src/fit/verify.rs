//! Proof: what a run that a law was not fitted on says about it (docs/models.md, "What the bound
//! rests on").

use std::collections::BTreeMap;

use crate::law::align::View;
use crate::law::course::SizedCourse;
use crate::law::{MIN_SHAPES, Sequence, Size};
use crate::model::{Body, Law, Proof};
use crate::profile::{Event, MIN_BYTES, Run};
use crate::shape::volume;

/// A verification run has at least this many times the largest training volume …
const MIN_VOLUME_RATIO: u128 = 8;
/// … and in every dimension that varies at least this many tenths of the largest trained length.
const MIN_LENGTH_TENTHS: u128 = 18;
/// Agreement that makes a law exact.
const EXACT: f64 = 0.001;
/// How far below the law a run may stay for the law to count as its worst case.
const WORST_CASE: f64 = 0.05;
/// Bytes that small blocks may differ by.
const SLACK: f64 = 65_536.0;
/// Largest size at which a buffer may stop growing (NumPy's have 8,192 elements, of 16 bytes at
/// most).
const MAX_CAP: u64 = 1 << 20;
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

/// True if `shape` is far enough from `trained` to prove anything. A length that is the same in
/// both never varied (three colours, say), or there is another run that shows it.
pub fn is_far(shape: &[u64], trained: &[u64]) -> bool {
    let large = volume(shape) >= volume(trained).saturating_mul(MIN_VOLUME_RATIO);
    let long = |(&n, &trained): (&u64, &u64)| u128::from(n) * 10 >= u128::from(trained) * MIN_LENGTH_TENTHS;
    large && shape.iter().zip(trained).all(|lengths| lengths.0 == lengths.1 || long(lengths))
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
            return within.then(|| Proof::of_runs(regression.runs));
        }
    };
    let within_worst_case = (-EXACT..=WORST_CASE).contains(&error);
    if law.rests_on_fits(point, EXACT * measured) {
        return within_worst_case.then_some(Proof::of_runs(law.trained_on.len()));
    }
    let mut sizes = sequence.sizes.iter().chain([&law.residual]);
    if error.abs() <= EXACT && !sizes.any(Size::is_undetermined) {
        return Some(Proof::Exact { shape, error: error.abs() });
    }
    within_worst_case.then_some(Proof::WorstCase { shape, error })
}

/// True if a law gives every shape that it was fitted on what some run there needed. One that
/// leaves out a shape's course may not.
pub fn predicts(law: &Law, runs: &[&Run], points: &[Vec<u64>]) -> bool {
    let mut shapes: BTreeMap<&Vec<u64>, bool> = BTreeMap::new();
    for (run, point) in runs.iter().zip(points) {
        let measured = run.span.working_peak_bytes as f64;
        let agrees = law.bytes(point).is_ok_and(|bytes| {
            let above = bytes.working as f64 - measured;
            (-EXACT * measured - SLACK..=WORST_CASE * measured + SLACK).contains(&above)
        });
        *shapes.entry(point).or_default() |= agrees;
    }
    shapes.into_values().all(|agrees| agrees)
}

/// Drops those alternatives of a law's sizes that a further run rules out, block by block, and
/// notices buffers that have stopped growing.
///
/// True if the run took the law's course and every block that is not negligible against the peak
/// has the size that the law gives it: a peak that agrees while its blocks do not agrees by chance.
pub fn settle(law: &mut Law, run: &Run, point: &[u64], view: Option<&View>) -> bool {
    for (output, seen) in law.outputs.iter_mut().zip(&*run.span.outputs) {
        for (axis, &length) in output.shape.iter_mut().zip(&seen.shape) {
            settle_size(axis, length, point);
        }
    }
    let (Body::Symbolic(sequence), Some(view)) = (&mut law.body, view) else { return true };
    let negligible = (EXACT * run.span.working_peak_bytes as f64) as u64;
    let sized = view.of(&run.program);
    let steps = steps(sequence, view);
    if !alike(&sized, &steps) {
        return takes_course(sequence, run, point, view, negligible);
    }
    let mut confirmed = true;
    for (event, (size, _)) in sized.course.events.iter().zip(steps) {
        if let Event::Alloc(block) = event {
            let (size, bytes) = (&mut sequence.sizes[size], sized.bytes[*block]);
            settle_size(size, bytes, point);
            confirmed &= bytes <= negligible || allows(size, bytes, point);
        }
    }
    confirmed
}

/// Size and direction of each step; workspaces that a view leaves out are a step of their own.
fn steps(sequence: &Sequence, view: &View) -> Vec<(usize, bool)> {
    let first = usize::from(!view.workspaces.is_empty());
    sequence.steps.iter().skip(first).filter_map(|&step| sequence.step(step)).collect()
}

fn alike(sized: &SizedCourse, steps: &[(usize, bool)]) -> bool {
    let events = &sized.course.events;
    let same = |(event, step): (&Event, &(usize, bool))| matches!(event, Event::Alloc(_)) == step.1;
    steps.len() == events.len() && events.iter().zip(steps).all(same)
}

/// True if a run's blocks of more than `above` bytes are those of a law, in its order. Small ones
/// come with the length: tables of an FFT that are below the threshold at shorter axes.
fn takes_course(sequence: &Sequence, run: &Run, point: &[u64], view: &View, above: u64) -> bool {
    let threshold = view.threshold.max(above);
    let sized = View { threshold, ..view.clone() }.of(&run.program);
    let large = |(size, _): &(usize, bool)| sequence.sizes[*size].at(point) >= Some(u128::from(threshold));
    let steps: Vec<(usize, bool)> = steps(sequence, view).into_iter().filter(large).collect();
    let allowed = |(event, (size, _)): (&Event, &(usize, bool))| {
        let (Event::Alloc(block) | Event::Free(block)) = event;
        allows(&sequence.sizes[*size], sized.bytes[*block], point)
    };
    alike(&sized, &steps) && sized.course.events.iter().zip(&steps).all(allowed)
}

/// True if a block of a size may have `bytes`.
fn allows(size: &Size, bytes: u64, point: &[u64]) -> bool {
    let bytes = u128::from(bytes);
    match size {
        Size::Exact { .. } | Size::Capped { .. } | Size::Remainder { .. } => size.at(point) == Some(bytes),
        Size::Lines { .. } | Size::Bounded { .. } | Size::Units { .. } => size.upper(point) >= Some(bytes),
        Size::Nearby { .. } => true, // judged by the sum
        // The sum says nothing of a block that is not live at the peak: `Law::rests_on_fits` takes it
        // to have half as much again at most.
        Size::Fitted(_) => size.at(point).is_some_and(|fitted| bytes <= fitted.saturating_add(fitted / 2)),
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
