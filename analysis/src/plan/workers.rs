//! How many workers are worth having.

use schemars::JsonSchema;
use serde::Serialize;

/// More workers must make the work faster by this much each time they are doubled.
const WORTH_A_DOUBLING: f64 = 1.2;
/// More workers than this are not tried.
pub(crate) const MOST_WORKERS: u64 = 1_024;

/// How many workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// This many.
    Number(u64),
    /// The fewest that fit and are not much slower than more of them.
    Auto,
}

/// A number of workers, with the chunks that suit it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Tried {
    /// How many.
    pub workers: u64,
    /// The largest chunk.
    pub chunk_shape: Vec<u64>,
    /// From submission to result.
    pub predicted_seconds: f64,
    /// One worker at its peak, bytes.
    pub predicted_worker_bytes: u64,
}

impl Workers {
    /// The numbers to try: a power of two and one and a half times it, in order.
    fn numbers(self) -> Vec<u64> {
        match self {
            Workers::Number(number) => vec![number],
            Workers::Auto => {
                let powers = (0..).map(|power| 1u64 << power).take_while(|&number| number <= MOST_WORKERS);
                powers
                    .flat_map(|two| [Some(two), (two > 1 && two < MOST_WORKERS).then(|| two / 2 * 3)])
                    .flatten()
                    .collect()
            }
        }
    }

    /// A number that a refusal can be about: retained chunks are shared by more workers, so more
    /// need less.
    pub(crate) fn most(self) -> u64 {
        match self {
            Workers::Number(number) => number,
            Workers::Auto => MOST_WORKERS,
        }
    }

    /// What `find` finds for each number, until a doubling no longer makes it faster.
    pub(crate) fn found<T>(
        self,
        seconds: impl Fn(&T) -> f64,
        mut find: impl FnMut(u64) -> Option<T>,
    ) -> Vec<(u64, T)> {
        let mut found: Vec<(u64, T)> = Vec::new();
        for workers in self.numbers() {
            let Some(fits) = find(workers) else { if found.is_empty() { continue } else { break } };
            // If even a task for every thread is no faster than with half as many, more workers
            // only wait.
            let half = found.iter().rfind(|(fewer, _)| 2 * fewer <= workers);
            let stop = half.is_some_and(|(_, last)| seconds(&fits) >= seconds(last) * 0.999);
            found.push((workers, fits));
            if stop {
                break;
            }
        }
        found
    }
}

/// Of numbers of workers, in order, and their seconds: the last up to which each step was worth its
/// workers.
pub(crate) fn worthwhile(found: &[(u64, f64)]) -> usize {
    let mut chosen = 0;
    for (at, &(workers, seconds)) in found.iter().enumerate().skip(1) {
        let (fewer, slower) = found[chosen];
        let doublings = (workers as f64 / fewer as f64).log2();
        if slower / seconds >= WORTH_A_DOUBLING.powf(doublings) {
            chosen = at;
        } else if doublings >= 1.0 {
            break;
        }
    }
    chosen
}

/// The reason for the number that was chosen: the rest of a sentence, and its end.
pub(crate) fn why(found: &[(u64, f64)], chosen: usize) -> String {
    let Some(&(workers, seconds)) = found.get(chosen) else { return ".".into() };
    let enough = match found[0].0 {
        1 => "one worker is enough for the memory".into(),
        fewest => format!("with fewer than {fewest} workers no chunks fit"),
    };
    let beyond = match found[chosen..].iter().find(|(more, _)| *more >= 2 * workers) {
        Some((more, then)) => {
            format!("{more} would take {:.0} % of the time that {workers} take", 100.0 * then / seconds)
        }
        None => "more of them would not be faster".into(),
    };
    format!("; {enough}, and {beyond}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_between_powers_of_two_are_tried_too() {
        let found = Workers::Auto.found(|seconds| *seconds, |workers| Some(12.0 / workers.min(12) as f64));
        let numbers: Vec<u64> = found.iter().map(|found| found.0).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 6, 8, 12, 16, 24]);
        assert_eq!(Workers::Number(5).numbers(), [5]);
        assert_eq!(Workers::Auto.numbers().last(), Some(&MOST_WORKERS));
    }

    #[test]
    fn more_workers_are_taken_as_long_as_they_are_worth_it() {
        assert_eq!(worthwhile(&[(1, 10.0), (2, 9.5), (4, 9.0)]), 0);
        assert_eq!(worthwhile(&[(1, 10.0), (2, 5.0), (3, 3.4), (4, 3.3), (6, 3.2)]), 2);
        // Three are no faster than two where there are four tasks; four are.
        assert_eq!(worthwhile(&[(1, 10.0), (2, 5.0), (3, 5.0), (4, 2.5), (6, 2.5), (8, 2.5)]), 3);
    }
}
