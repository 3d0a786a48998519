//! What was measured next to an operator's runs, over all processes that ran it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::law::MIN_SHAPES;
use crate::model::{self, Law};
use crate::profile::measured::{Baseline, OneTime};
use crate::profile::{Profile, differ};
use crate::stats::regression::{self, Regression};

/// One-time bytes that differ from their regression by more, of themselves, follow no shape.
const MOST_ERROR: f64 = 0.5;

/// One-time bytes of a law's operator: the largest over the processes that ran it, and how they grow
/// with the shape that came first in a process. A cache of a table has the table's size.
pub(super) fn one_time(profiles: &[Profile], law: &Law) -> (OneTime, Option<Regression>) {
    let mut largest = OneTime::default();
    let (mut points, mut bytes) = (Vec::new(), Vec::new());
    let calls = profiles.iter().flat_map(|profile| &profile.first_calls);
    for call in calls.filter(|call| call.operator == law.key.operator) {
        let Some(found) = &call.one_time else { continue };
        if let Some(point) = model::point(&law.variables, &call.inputs) {
            points.push(point);
            bytes.push(found.bytes);
        }
        largest.join(found);
    }
    (largest, growth(&points, &bytes))
}

/// How bytes grow with the shape, if they do; a step from one size to another is no growth.
fn growth(points: &[Vec<u64>], bytes: &[u64]) -> Option<Regression> {
    let shapes = points.iter().collect::<BTreeSet<_>>().len();
    let (least, most) = (bytes.iter().min()?, bytes.iter().max()?);
    if shapes < MIN_SHAPES || !differ(*least, *most) {
        return None;
    }
    let bytes: Vec<f64> = bytes.iter().map(|&bytes| bytes as f64).collect();
    Some(regression::fit(points, &bytes)).filter(|fit| fit.error <= MOST_ERROR)
}

/// Memory of the processes before, in the recording whose inputs are smallest: a program makes its
/// arrays before the first call, and a task's own are counted apart. The largest over the processes.
pub(super) fn baseline(profiles: &[Profile], operator: &str) -> Option<Baseline> {
    let of_profile = |profile: &'_ Profile| {
        let calls = || profile.first_calls.iter().filter(|call| call.operator == operator);
        let baselines = calls().filter_map(|call| profile.baselines.get(&call.process).cloned());
        let inputs = calls().map(|call| call.most_input_bytes).max()?;
        Some((inputs, baselines.max_by_key(|baseline| baseline.resident_bytes)?))
    };
    let all = profiles.iter().filter_map(of_profile);
    let key = |(inputs, baseline): &(u64, Baseline)| {
        (baseline.resident_bytes.is_none(), *inputs, Reverse(baseline.resident_bytes))
    };
    let smallest = all.min_by_key(key);
    smallest.map(|(_, baseline)| baseline)
}
