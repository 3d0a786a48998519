//! Estimates corrected by runs of plans: a Bayesian linear model. The time of the slow run and the gains
//! of the objects in each tier are its unknowns, normal with the errors that they have; a run of a
//! placement is the slow time less the gains of the objects where they are, and what one run differs from
//! the next by. What an object gains in one tier and in another counts as independent: a run with it in
//! the one says nothing of the other.

use super::object::{Gained, Object, Where};
use super::plan::RUN_ERROR;

/// What a gain may be off by, as a share of it, beside the error of its samples.
const GAIN_ERROR: f64 = 0.15;

/// A run of a placement.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Where each object was.
    pub tiers: Vec<Where>,
    /// CPU seconds.
    pub seconds: f64,
}

/// Corrects the slow time and the objects' gains, in place.
pub fn correct(slow: &mut f64, objects: &mut [Object], runs: &[Run]) {
    let run_variance = (RUN_ERROR * *slow).powi(2);
    let told = |run: &Run| {
        let gains = objects.iter().zip(&run.tiers).map(|(object, tier)| object.gained(*tier).gain_seconds);
        *slow - gains.sum::<f64>()
    };
    let surprises: Vec<f64> = runs.iter().map(|run| run.seconds - told(run)).collect();
    let in_common = |one: &Run, other: &Run| {
        let tiers = one.tiers.iter().zip(&other.tiers);
        let same = objects.iter().zip(tiers).filter(|(_, (one, other))| one == other);
        run_variance + same.map(|(object, (tier, _))| variance(object.gained(*tier))).sum::<f64>()
    };
    let covariance = (0..runs.len()).map(|i| {
        let own = |j| if i == j { run_variance } else { 0.0 };
        (0..runs.len()).map(|j| in_common(&runs[i], &runs[j]) + own(j)).collect()
    });
    let weights = solved(covariance.collect(), surprises);
    *slow += run_variance * weights.iter().sum::<f64>();
    for (index, object) in objects.iter_mut().enumerate() {
        let less = |tier: Where| {
            let of_runs = runs.iter().zip(&weights).filter(|(run, _)| run.tiers[index] == tier);
            variance(object.gained(tier)) * of_runs.map(|(_, weight)| weight).sum::<f64>()
        };
        let (of_middle, of_fast) = (less(Where::Middle), less(Where::Fast));
        object.gain_seconds -= of_fast;
        if let Some(middle) = &mut object.middle {
            middle.gain_seconds -= of_middle;
        }
    }
}

fn variance(of: Gained) -> f64 {
    of.gain_error_seconds.powi(2) + (GAIN_ERROR * of.gain_seconds).powi(2)
}

/// The solution of a few linear equations whose matrix is positive definite (Cholesky).
fn solved(mut matrix: Vec<Vec<f64>>, mut values: Vec<f64>) -> Vec<f64> {
    let n = values.len();
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| matrix[i][k] * matrix[j][k]).sum();
            let rest = matrix[i][j] - sum;
            matrix[i][j] = if i == j { rest.max(f64::MIN_POSITIVE).sqrt() } else { rest / matrix[j][j] };
        }
    }
    for i in 0..n {
        let sum: f64 = (0..i).map(|k| matrix[i][k] * values[k]).sum();
        values[i] = (values[i] - sum) / matrix[i][i];
    }
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|k| matrix[k][i] * values[k]).sum();
        values[i] = (values[i] - sum) / matrix[i][i];
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(gain: f64) -> Object {
        Object {
            site: None,
            place: None,
            bytes: 1,
            ordinal: 0,
            blocks: 1,
            time_share: 0.0,
            gain_seconds: gain,
            gain_error_seconds: 0.1 * gain,
            middle: Some(Gained { gain_seconds: gain / 2.0, gain_error_seconds: 0.05 * gain }),
            tier: Where::Slow,
            moved_bytes: 0,
        }
    }

    #[test]
    fn equations_are_solved() {
        let solution = solved(vec![vec![4.0, 2.0], vec![2.0, 3.0]], vec![10.0, 9.0]);
        assert!((solution[0] - 1.5).abs() < 1e-12 && (solution[1] - 2.0).abs() < 1e-12);
        assert!(solved(Vec::new(), Vec::new()).is_empty());
    }

    #[test]
    fn a_run_that_is_as_told_changes_nothing() {
        let (mut slow, mut objects) = (10.0, [object(2.0), object(1.0)]);
        correct(&mut slow, &mut objects, &[Run { tiers: vec![Where::Fast, Where::Slow], seconds: 8.0 }]);
        assert_eq!((slow, objects[0].gain_seconds, objects[1].gain_seconds), (10.0, 2.0, 1.0));
    }

    #[test]
    fn runs_move_the_gains_of_what_was_fast() {
        let (mut slow, mut objects) = (10.0, [object(4.0), object(1.0)]);
        let run = Run { tiers: vec![Where::Fast, Where::Slow], seconds: 8.0 };
        correct(&mut slow, &mut objects, &[run.clone(), run]);
        assert!(objects[0].gain_seconds < 3.0 && objects[0].gain_seconds > 2.0, "{objects:?}");
        assert_eq!(objects[1].gain_seconds, 1.0);
        assert!(slow > 10.0 && slow < 10.5, "{slow}");
        assert_eq!(objects[0].gained(Where::Middle).gain_seconds, 2.0, "it was not there");
    }

    #[test]
    fn a_run_with_an_object_in_the_middle_says_nothing_of_the_fast_tier() {
        let (mut slow, mut objects) = (10.0, [object(4.0), object(1.0)]);
        let run = Run { tiers: vec![Where::Middle, Where::Slow], seconds: 9.0 };
        correct(&mut slow, &mut objects, &[run.clone(), run]);
        let middle = objects[0].gained(Where::Middle).gain_seconds;
        assert!(middle < 1.7 && middle > 1.0, "{objects:?}");
        assert_eq!(objects[0].gain_seconds, 4.0);
    }
}
