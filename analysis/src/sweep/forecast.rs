//! What a whole run needs (interpreter, data, operator), from the runs so far.

use crate::shape::volume;
use crate::stats::regression;
use crate::stats::regression::Regression;

/// Until three runs say more, memory is taken to grow no faster than this power of the volume: a
/// Gram matrix of a flattened array does.
const FASTEST: i32 = 2;

/// Peaks of whole runs, and their growth.
pub(super) struct Forecast {
    /// Shapes and peaks.
    runs: Vec<(Vec<u64>, u64)>,
    /// Fitted to them, as soon as there are three.
    fitted: Option<Regression>,
}

impl Forecast {
    pub(super) fn new(runs: Vec<(Vec<u64>, u64)>) -> Forecast {
        let fitted = (runs.len() >= 3).then(|| {
            let points: Vec<Vec<u64>> = runs.iter().map(|(shape, _)| shape.clone()).collect();
            let peaks: Vec<f64> = runs.iter().map(|(_, peak)| (*peak).max(1) as f64).collect();
            regression::fit(&points, &peaks)
        });
        Forecast { runs, fitted }
    }

    /// The most a run at this shape may need, bytes; 0 if nothing was run.
    pub(super) fn upper(&self, shape: &[u64]) -> f64 {
        let fitted = self.fitted.as_ref();
        let bound = fitted.map(|fitted| fitted.upper(shape).map_or(f64::INFINITY, |bytes| bytes as f64));
        // Nothing smaller than what was run needs more than that did.
        bound.unwrap_or_else(|| self.grown(shape, FASTEST))
    }

    /// What the runs needed beyond what `needs` says of their shapes, at most.
    pub(super) fn beyond(&self, needs: impl Fn(&[u64]) -> Option<f64>) -> f64 {
        let beyond = |(shape, peak): &(Vec<u64>, u64)| Some(*peak as f64 - needs(shape)?);
        self.runs.iter().filter_map(beyond).fold(0.0, f64::max)
    }

    /// The likely need, for looking ahead.
    pub(super) fn estimate(&self, shape: &[u64]) -> f64 {
        self.fitted.as_ref().map_or_else(|| self.grown(shape, 1), |fitted| fitted.value(shape))
    }

    fn grown(&self, shape: &[u64], power: i32) -> f64 {
        let Some((largest, _)) = self.runs.iter().max_by_key(|(shape, _)| volume(shape)) else { return 0.0 };
        let peak = self.runs.iter().map(|(_, peak)| *peak).max().unwrap_or(0);
        let growth = volume(shape) as f64 / volume(largest).max(1) as f64;
        peak as f64 * growth.max(1.0).powi(power)
    }
}
