//! A law over one of its variables, for those who draw it.

use serde::Serialize;

use super::{Law, Proof};
use crate::error::Error;

/// Lengths at which a law is drawn, about.
const LENGTHS: u64 = 80;

/// A law over the first of its variables that varied in the runs; the others are those of the
/// largest run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The variable.
    pub variable: String,
    /// The others, with their lengths.
    pub others: Vec<(String, u64)>,
    /// Its smallest and largest length in the runs, the one that verified the law among them.
    pub range: (u64, u64),
    /// What the law's bound rests on.
    pub proof: String,
    /// True if that is more than the runs it was fitted on.
    pub verified: bool,
    /// Lengths up to a quarter beyond that range, the bytes that the law gives, and the most it can
    /// be.
    pub law: Vec<(u64, u64, u64)>,
    /// Runs with the others at these lengths: length, and bytes as recorded.
    pub measured: Vec<(u64, u64)>,
    /// Other runs: length, bytes as recorded, and bytes that the law gives.
    pub elsewhere: Vec<(u64, u64, u64)>,
}

impl Curve {
    /// The curve of a law.
    ///
    /// # Errors
    /// The law has no recorded runs, or no variable.
    pub fn of(law: &Law) -> Result<Curve, Error> {
        let largest = law.trained_on.iter().max_by_key(|run| run.working_peak_bytes);
        let ranges: Option<Vec<(u64, u64)>> = (0..law.variables.len()).map(|axis| range(law, axis)).collect();
        let (Some(largest), Some(ranges)) = (largest, ranges.filter(|ranges| !ranges.is_empty())) else {
            let operator = &law.key.operator;
            return Err(Error::NoLaw(format!(
                "the law of {operator} has no runs of several lengths to draw"
            )));
        };
        let axis = ranges.iter().position(|(low, high)| low < high).unwrap_or(0);
        let at = |length: u64| {
            let mut shape = largest.shape.clone();
            shape[axis] = length;
            shape
        };
        let mut curve = Curve {
            variable: law.variables[axis].name.clone(),
            others: others(law, axis, &largest.shape),
            range: ranges[axis],
            proof: law.proof.to_string(),
            verified: law.proof != Proof::Unverified,
            law: Vec::new(),
            measured: Vec::new(),
            elsewhere: Vec::new(),
        };
        for length in lengths(ranges[axis]) {
            let bytes = law.bytes(&at(length))?;
            curve.law.push((length, bytes.working, bytes.working_upper));
        }
        for run in &law.trained_on {
            let (length, bytes) = (run.shape[axis], run.working_peak_bytes);
            match run.shape == at(length) {
                true => curve.measured.push((length, bytes)),
                false => curve.elsewhere.push((length, bytes, law.bytes(&run.shape)?.working)),
            }
        }
        Ok(curve)
    }
}

/// The smallest and the largest length of an axis in the runs.
fn range(law: &Law, axis: usize) -> Option<(u64, u64)> {
    let lengths = || law.shapes().filter_map(|shape| shape.get(axis).copied());
    Some((lengths().min()?, lengths().max()?))
}

fn others(law: &Law, axis: usize, shape: &[u64]) -> Vec<(String, u64)> {
    let all = law.variables.iter().zip(shape).enumerate().filter(|(other, _)| *other != axis);
    all.map(|(_, (variable, length))| (variable.name.clone(), *length)).collect()
}

/// Evenly spread ones, from half of the smallest on.
fn lengths((low, high): (u64, u64)) -> Vec<u64> {
    let (first, last) = ((low / 2).max(1), high.saturating_add(high / 4));
    let step = (last.saturating_sub(first) / LENGTHS).max(1);
    let nth = |n: u64| first.checked_add(step.checked_mul(n)?);
    let mut lengths: Vec<u64> = (0..2 * LENGTHS).map_while(nth).take_while(|n| *n < last).collect();
    lengths.push(last);
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit_table;

    #[test]
    fn runs_at_other_lengths_are_apart() {
        let shapes = [[10, 20], [20, 30], [30, 50], [40, 50]].map(Vec::from);
        let model = fit_table("scale", "<f8", 8, &shapes, &[1600, 4800, 12_000, 16_000]).unwrap();
        let curve = Curve::of(&model.laws[0]).unwrap();
        assert_eq!((curve.variable.as_str(), curve.others.as_slice()), ("n0", &[("n1".into(), 50)][..]));
        assert_eq!((curve.range, curve.verified), ((10, 40), false));
        assert_eq!(curve.measured, [(30, 12_000), (40, 16_000)]);
        assert_eq!(curve.elsewhere, [(10, 1600, 1600), (20, 4800, 4800)]);
        assert_eq!((curve.law[0].0, curve.law.last().unwrap().0), (5, 50));
        assert!(curve.law.iter().all(|(length, bytes, upper)| *bytes == 400 * length && upper >= bytes));
    }

    #[test]
    fn lengths_are_spread_and_end_at_the_last() {
        assert_eq!(lengths((1, 1)), [1]);
        assert_eq!(lengths((4, 8)), [2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let many = lengths((1000, 1_000_000));
        assert!(many.len() < 90 && many.is_sorted() && many.last() == Some(&1_250_000));
        assert_eq!(lengths((1, u64::MAX)).last(), Some(&u64::MAX));
    }
}
