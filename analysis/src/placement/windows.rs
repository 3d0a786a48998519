//! Runs cut into windows of time, and the windows of two runs matched: what a program does in the
//! one it does in the other, in the same order, only faster or slower.
//!
//! Two windows are alike if the samples in them meet the same objects. The match is the cheapest
//! order-preserving one (dynamic time warping, Sakoe and Chiba 1978), over the sum of differences.

use super::observed::Sample;

/// Length of a window, ns: that of the published method.
const WINDOW_NS: i64 = 50_000_000;
/// Windows of a run at most; they are longer where there would be more.
const MOST_WINDOWS: i64 = 1_000;
/// What it costs that the one run stays while the other goes on: as much as two windows that differ
/// by a twentieth of their samples. Without it, alike windows would be matched by their noise.
const STAY: f32 = 0.1;

/// A part of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Window {
    /// Samples in it.
    pub samples: u32,
    /// Of them, by object: in the order of the objects, those that were met.
    pub met: Vec<(usize, u32)>,
}

/// Cuts a run into windows, from its first sample to its last.
pub fn cut(samples: &[Sample]) -> Vec<Window> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Vec::new() };
    let span = last.time_ns - first.time_ns + 1;
    let length = WINDOW_NS.max(span / MOST_WINDOWS + 1);
    let of = |sample: &Sample| (sample.time_ns - first.time_ns) / length;
    samples.chunk_by(|one, other| of(one) == of(other)).map(Window::of).collect()
}

impl Window {
    fn of(samples: &[Sample]) -> Window {
        let mut objects: Vec<usize> = samples.iter().filter_map(|sample| sample.object).collect();
        objects.sort_unstable();
        let met = objects.chunk_by(|one, other| one == other).map(|same| (same[0], same.len() as u32));
        Window { samples: samples.len() as u32, met: met.collect() }
    }

    /// Samples that met an object.
    pub fn in_objects(&self) -> u32 {
        self.met.iter().map(|(_, samples)| samples).sum()
    }

    fn of_object(&self, object: usize) -> u32 {
        self.met.binary_search_by_key(&object, |(object, _)| *object).map_or(0, |index| self.met[index].1)
    }

    /// From 0 (the same shares of samples) to 2 (nothing in common).
    fn differs(&self, other: &Window) -> f32 {
        let share = |window: &Window, samples: u32| samples as f32 / window.samples.max(1) as f32;
        let differs = |ours: u32, theirs: u32| (share(self, ours) - share(other, theirs)).abs();
        let elsewhere = differs(self.samples - self.in_objects(), other.samples - other.in_objects());
        let ours = self.met.iter().map(|(object, samples)| differs(*samples, other.of_object(*object)));
        let theirs = other.met.iter().filter(|(object, _)| self.of_object(*object) == 0);
        elsewhere + ours.sum::<f32>() + theirs.map(|(_, samples)| share(other, *samples)).sum::<f32>()
    }
}

/// For each window of the first run, how many samples of the second one were taken while it did the
/// same. Their sum is all of them.
pub fn matched(first: &[Window], second: &[Window]) -> Vec<f64> {
    let mut samples = vec![0.0; first.len()];
    if first.is_empty() || second.is_empty() {
        return samples;
    }
    let pairs = path(first, second);
    let mut partners = vec![0u32; second.len()];
    pairs.iter().for_each(|(_, j)| partners[*j] += 1);
    for (i, j) in pairs {
        samples[i] += f64::from(second[j].samples) / f64::from(partners[j]);
    }
    samples
}

/// How the cheapest way came to a pair.
#[derive(Clone, Copy)]
enum Step {
    Both,
    First,
    Second,
}

/// The pairs of windows that are matched.
fn path(first: &[Window], second: &[Window]) -> Vec<(usize, usize)> {
    let width = second.len();
    let mut steps = vec![Step::Both; first.len() * width];
    let mut above = vec![f32::INFINITY; width];
    for (i, window) in first.iter().enumerate() {
        let mut left = f32::INFINITY;
        let mut corner = if i == 0 { 0.0 } else { f32::INFINITY };
        for j in 0..width {
            let ways = [(corner, Step::Both), (above[j] + STAY, Step::First), (left + STAY, Step::Second)];
            let (before, step) =
                ways.into_iter().min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or((0.0, Step::Both));
            let before = if before.is_finite() { before } else { 0.0 };
            corner = above[j];
            left = before + window.differs(&second[j]);
            above[j] = left;
            steps[i * width + j] = step;
        }
    }
    let (mut i, mut j) = (first.len() - 1, width - 1);
    let mut pairs = vec![(i, j)];
    while (i, j) != (0, 0) {
        match steps[i * width + j] {
            Step::Both if i > 0 && j > 0 => (i, j) = (i - 1, j - 1),
            Step::First if i > 0 => i -= 1,
            Step::Second if j > 0 => j -= 1,
            _ if i > 0 => i -= 1,
            _ => j -= 1,
        }
        pairs.push((i, j));
    }
    pairs
}
