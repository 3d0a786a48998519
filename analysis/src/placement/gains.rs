//! What each object gains in the fast tier, from two runs: all blocks in the slow tier, and all in
//! the fast one.
//!
//! Run-time estimation by differential tracing (ISC 2022): of a window of time of the slow run and
//! the same part of the fast one, T(M) = (t_slow · n_out + t_fast · n_in) / n, with the samples of
//! the slow run that met objects outside and inside the placement M. So an object gains
//! Σ (t_slow − t_fast) · n_object / n, and gains add up. The samples here are of the clock: they
//! count the time that an object takes, where counts of accesses take each access for as slow as any
//! other.
//!
//! An object that the fast run could not place (a block below a huge page) gains nothing, and counts as
//! anything else that a program does.
//!
//! The kernel's time is not sampled. What differs of it is shared by the bytes that were allocated.

use std::collections::{HashMap, HashSet};

use super::observed::{Block, Key, Observed, Sample};
use super::windows;

/// What an object gains.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gain {
    /// CPU seconds.
    pub seconds: f64,
    /// Standard error of that, by the samples alone.
    pub error: f64,
    /// Samples of the slow run that met it.
    pub samples: usize,
    /// The seconds between its samples in the one run and in the other, counted by themselves: what
    /// it gains if no time of it falls on the samples of others.
    pub own_seconds: f64,
}

impl Gain {
    /// Standard error, with what the two ways to count differ by.
    pub fn standard_error(&self) -> f64 {
        self.error.hypot((self.seconds - self.own_seconds) / 2.0)
    }
}

/// The gains of the slow run's objects, in their order.
pub fn gains(slow: &Observed, fast: &Observed) -> Vec<Gain> {
    let fast_objects: HashMap<Key, usize> =
        fast.objects.iter().enumerate().map(|(index, key)| (*key, index)).collect();
    let mut gains = vec![Gain::default(); slow.objects.len()];
    of_windows(slow, fast, &mut gains);
    of_samples(slow, fast, &fast_objects, &mut gains);
    of_the_kernel(slow, fast, &fast_objects, &mut gains);
    gains
}

/// The published formula.
fn of_windows(slow: &Observed, fast: &Observed, gains: &mut [Gain]) {
    // The objects of the fast run under the numbers that they have in the slow one; others meet
    // nothing.
    let numbers: HashMap<Key, usize> =
        slow.objects.iter().enumerate().map(|(index, key)| (*key, index)).collect();
    let renamed: Vec<_> = fast
        .samples
        .iter()
        .map(|sample| Sample {
            object: sample.object.and_then(|object| numbers.get(&fast.objects[object]).copied()),
            ..*sample
        })
        .collect();
    let placeable: HashSet<Key> = fast.objects.iter().copied().collect();
    let is_placeable = |object: usize| placeable.contains(&slow.objects[object]);
    let movable: Vec<_> = slow
        .samples
        .iter()
        .map(|sample| Sample { object: sample.object.filter(|object| is_placeable(*object)), ..*sample })
        .collect();
    let (slow_windows, fast_windows) = (windows::cut(&movable), windows::cut(&renamed));
    let fast_samples = windows::matched(&slow_windows, &fast_windows);
    for (window, fast_samples) in slow_windows.iter().zip(fast_samples) {
        let n = f64::from(window.in_objects());
        let slow_seconds = f64::from(window.samples) * slow.seconds_per_sample();
        let gained = slow_seconds - fast_samples * fast.seconds_per_sample();
        for (object, samples) in &window.met {
            let share = f64::from(*samples) / n;
            gains[*object].seconds += gained * share;
            gains[*object].error += gained * gained * share * (1.0 - share) / n;
            gains[*object].samples += *samples as usize;
        }
    }
    gains.iter_mut().for_each(|gain| gain.error = gain.error.sqrt());
}

fn of_samples(slow: &Observed, fast: &Observed, fast_objects: &HashMap<Key, usize>, gains: &mut [Gain]) {
    let mut fast_samples = vec![0usize; fast.objects.len()];
    fast.samples.iter().filter_map(|sample| sample.object).for_each(|object| fast_samples[object] += 1);
    for (gain, key) in gains.iter_mut().zip(&slow.objects) {
        let Some(of_fast) = fast_objects.get(key).map(|index| fast_samples[*index]) else { continue };
        gain.own_seconds =
            gain.samples as f64 * slow.seconds_per_sample() - of_fast as f64 * fast.seconds_per_sample();
    }
}

fn of_the_kernel(slow: &Observed, fast: &Observed, fast_objects: &HashMap<Key, usize>, gains: &mut [Gain]) {
    let bytes = |object: usize| slow.objects[object].bytes as f64;
    let placed = |block: &&Block| fast_objects.contains_key(&slow.objects[block.object]);
    let all: f64 = slow.blocks.iter().filter(placed).map(|block| bytes(block.object)).sum();
    let gained = slow.system_seconds - fast.system_seconds;
    for block in slow.blocks.iter().filter(placed) {
        let share = gained * bytes(block.object) / all;
        gains[block.object].seconds += share;
        gains[block.object].own_seconds += share;
    }
}
