//! Operators whose memory depends on what is in their arrays, and the most they were seen to need.

use std::collections::BTreeMap;

use crate::law::MIN_SHAPES;
use crate::model::{Law, WorstCase};
use crate::profile::{Run, differ};

/// The worst of what a law says, raised until no run is above it.
pub fn covering(law: Law, runs: &[&Run], points: &[Vec<u64>]) -> WorstCase {
    let worst = WorstCase { body: law.body, residual: law.residual, factor: 1.0 };
    let beyond = |(run, point): (&&Run, &Vec<u64>)| {
        let fitted = worst.fitted(point).unwrap_or(0).max(1);
        run.span.working_peak_bytes as f64 / fitted as f64
    };
    let factor = runs.iter().zip(points).map(beyond).fold(1.0, f64::max);
    WorstCase { factor, ..worst }
}

/// Whether runs of one shape differ in their peak or in the shape of a result; `None` if no shape
/// was run twice. What it says is about the data values that were run.
pub fn depends(runs: &[&Run], points: &[Vec<u64>]) -> Option<bool> {
    let mut known = None;
    for runs in by_shape(runs, points).into_values().filter(|runs| runs.len() > 1) {
        let peaks = || runs.iter().map(|(_, run)| run.span.working_peak_bytes);
        let (least, most) = (peaks().min().unwrap_or(0), peaks().max().unwrap_or(0));
        let shapes = |run: &Run| run.span.outputs.iter().map(|out| out.shape.clone()).collect::<Vec<_>>();
        let results = runs.iter().any(|(_, run)| shapes(run) != shapes(runs[0].1));
        if differ(least, most) || results {
            return Some(true);
        }
        known = Some(false);
    }
    known
}

/// The largest run of each shape; shapes that were run once are left out if there are enough
/// others, since nothing says how demanding their data values were.
pub fn largest(runs: &[&Run], points: &[Vec<u64>]) -> Vec<usize> {
    let shapes = by_shape(runs, points);
    let often = shapes.values().filter(|runs| runs.len() > 1).count();
    let wanted = shapes.values().filter(|runs| often < MIN_SHAPES || runs.len() > 1);
    let worst = |runs: &Vec<(usize, &Run)>| {
        runs.iter().max_by_key(|(_, run)| run.span.working_peak_bytes).map(|(index, _)| *index)
    };
    wanted.filter_map(worst).collect()
}

fn by_shape<'a>(runs: &[&'a Run], points: &'a [Vec<u64>]) -> BTreeMap<&'a Vec<u64>, Vec<(usize, &'a Run)>> {
    let mut shapes: BTreeMap<&Vec<u64>, Vec<(usize, &Run)>> = BTreeMap::new();
    for (index, (run, point)) in runs.iter().zip(points).enumerate() {
        shapes.entry(point).or_default().push((index, run));
    }
    shapes
}
