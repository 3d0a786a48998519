//! Non-negative least squares on a few monomials: what is left where no exact form fits.

use serde::{Deserialize, Serialize};

use crate::shape::{Point, volume};

/// Most terms a regression may have: more would follow the noise of a handful of runs.
const MAX_TERMS: usize = 3;

/// A sum of monomials with non-negative coefficients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    /// The terms.
    pub terms: Vec<Monomial>,
    /// Worst relative error when each volume in turn was left out of the fit.
    pub error: f64,
    /// Runs it was fitted on.
    pub runs: usize,
}

/// `coefficient · ∏ n_d^powers[d]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Monomial {
    /// Non-negative.
    pub coefficient: f64,
    /// One power per variable.
    pub powers: Vec<u8>,
    /// Counts only where the product of all variables is at most this: what an allocator keeps of
    /// an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u64>,
}

impl Monomial {
    fn new(powers: Vec<u8>) -> Monomial {
        Monomial { coefficient: 0.0, powers, up_to: None }
    }

    /// Without its coefficient.
    fn unit(&self, point: &Point) -> f64 {
        if self.up_to.is_some_and(|limit| volume(point) > u128::from(limit)) {
            return 0.0;
        }
        self.powers.iter().zip(point).map(|(&power, &n)| (n as f64).powi(i32::from(power))).product()
    }
}

impl Regression {
    /// Estimate at a point, rounded up; `None` where it does not fit.
    pub fn at(&self, point: &Point) -> Option<u128> {
        whole(self.value(point))
    }

    /// Estimate plus twice the worst error seen in cross validation; see [`Regression::error`].
    pub fn upper(&self, point: &Point) -> Option<u128> {
        whole(self.value(point) * (1.0 + 2.0 * self.error))
    }

    /// Estimate at a point.
    pub fn value(&self, point: &Point) -> f64 {
        self.terms.iter().map(|term| term.coefficient * term.unit(point)).sum()
    }

    /// The sum in words.
    pub fn words(&self, names: &[String]) -> String {
        let term = |term: &Monomial| {
            let mut text = format!("{:.6}", term.coefficient);
            for (name, power) in names.iter().zip(&term.powers) {
                match power {
                    0 => {}
                    1 => text.push_str(&format!("·{name}")),
                    power => text.push_str(&format!("·{name}^{power}")),
                }
            }
            if let Some(limit) = term.up_to {
                text.push_str(&format!(" (up to {limit} elements)"));
            }
            text
        };
        let terms: Vec<String> = self.terms.iter().map(term).collect();
        if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
    }
}

fn whole(value: f64) -> Option<u128> {
    // Beyond 2^100 bytes nothing is a memory size; NaN fails the comparison too.
    (value >= 0.0 && value < 2f64.powi(100)).then(|| value.ceil() as u128)
}

/// Fits `values` (bytes, at least one of them positive) over `points`.
///
/// Sets of up to three monomials are tried, from plain to exotic, and compared by their mean error
/// when one volume at a time is left out (all runs of a volume together). A plain set must lower it
/// by a tenth, any other must halve it: among noisy runs some exotic set always looks a little
/// better, and extrapolates worse. Errors are relative, so small shapes count as large ones do.
pub fn fit(points: &[Vec<u64>], values: &[f64]) -> Regression {
    fit_with_kept_blocks(points, values, None)
}

/// The same for values that may be resident sizes of a process whose allocator keeps released
/// arrays of up to `kept_elements`: one more plain set has the volume twice, the second time up to
/// that many.
pub fn fit_with_kept_blocks(points: &[Vec<u64>], values: &[f64], kept_elements: Option<u64>) -> Regression {
    let dims = points.first().map_or(0, Vec::len);
    let mut pool = monomials(dims);
    // The pool begins with 1 and the volume: proportional and affine laws come before all others.
    let mut plain = vec![(vec![1], 0.9), (vec![0], 0.9), (vec![0, 1], 0.9)];
    if kept_elements.is_some() {
        plain.push((vec![0, 1, pool.len()], 0.9));
        pool.push(Monomial { up_to: kept_elements, ..Monomial::new(vec![1; dims]) });
    }
    let others = (1..=MAX_TERMS).flat_map(|count| subsets(pool.len(), count)).map(|set| (set, 0.5));
    let mut best: Option<(LeftOut, Vec<usize>)> = None;
    for (set, improvement) in plain.into_iter().chain(others) {
        let within = set.iter().all(|&index| index < pool.len());
        let errors = if within { left_out_errors(&pool, &set, points, values) } else { continue };
        let better = |(best, _): &(LeftOut, Vec<usize>)| errors.mean < best.mean * improvement - 1e-9;
        if best.as_ref().map_or(errors.mean.is_finite(), better) {
            best = Some((errors, set));
        }
    }
    let (error, set) = best.map_or((1.0, vec![0]), |(errors, set)| (errors.worst, set));
    let columns: Vec<&Monomial> = set.iter().map(|&index| &pool[index]).collect();
    let coefficients = solve(&columns, points, values, &|_| true);
    let terms = columns.into_iter().zip(coefficients).filter(|(_, coefficient)| *coefficient > 0.0);
    Regression {
        terms: terms.map(|(term, coefficient)| Monomial { coefficient, ..term.clone() }).collect(),
        error: if error.is_finite() { error } else { 1.0 },
        runs: points.len(),
    }
}

/// Non-negative `(a, b)` of `a + b · volume`.
pub fn affine(volumes: &[u64], values: &[f64]) -> (f64, f64) {
    let points: Vec<Vec<u64>> = volumes.iter().map(|&volume| vec![volume]).collect();
    let terms = [Monomial::new(vec![0]), Monomial::new(vec![1])];
    let coefficients = solve(&[&terms[0], &terms[1]], &points, values, &|_| true);
    (coefficients[0], coefficients[1])
}

/// 1, the volume, single lengths, their squares and products of two: the shapes memory takes.
fn monomials(dims: usize) -> Vec<Monomial> {
    let unit = |variables: &[usize]| {
        let mut powers = vec![0u8; dims];
        variables.iter().for_each(|&variable| powers[variable] += 1);
        powers
    };
    let mut pool = vec![vec![0; dims], vec![1; dims]];
    // Beyond four axes the products outnumber any set of runs.
    let axes = if dims <= 4 { dims } else { 0 };
    for first in 0..axes {
        pool.push(unit(&[first]));
        pool.extend((first..axes).map(|second| unit(&[first, second])));
    }
    let mut distinct: Vec<Vec<u8>> = Vec::new();
    for powers in pool {
        if !distinct.contains(&powers) {
            distinct.push(powers);
        }
    }
    distinct.into_iter().map(Monomial::new).collect()
}

fn subsets(of: usize, count: usize) -> Vec<Vec<usize>> {
    let mut found = vec![Vec::new()];
    for _ in 0..count {
        let longer = |set: &Vec<usize>| {
            let set = set.clone();
            (set.last().map_or(0, |last| last + 1)..of).map(move |next| [set.as_slice(), &[next]].concat())
        };
        found = found.iter().flat_map(longer).collect();
    }
    found
}

/// Relative errors over the volumes, each predicted without its own runs.
#[derive(Clone, Copy)]
struct LeftOut {
    mean: f64,
    worst: f64,
}

fn left_out_errors(pool: &[Monomial], set: &[usize], points: &[Vec<u64>], values: &[f64]) -> LeftOut {
    let columns: Vec<&Monomial> = set.iter().map(|&index| &pool[index]).collect();
    let volumes: Vec<u128> = points.iter().map(|point| volume(point)).collect();
    let distinct: std::collections::BTreeSet<u128> = volumes.iter().copied().collect();
    if distinct.len() <= set.len() {
        return LeftOut { mean: f64::INFINITY, worst: f64::INFINITY };
    }
    let (mut sum, mut worst) = (0.0, 0.0f64);
    for &left_out in &distinct {
        let coefficients = solve(&columns, points, values, &|run| volumes[run] != left_out);
        for run in (0..points.len()).filter(|&run| volumes[run] == left_out) {
            let terms = columns.iter().zip(&coefficients);
            let predicted: f64 = terms.map(|(term, c)| c * term.unit(&points[run])).sum();
            let error = (predicted - values[run]).abs() / values[run].max(1.0);
            sum += error;
            worst = worst.max(error);
        }
    }
    LeftOut { mean: sum / points.len() as f64, worst }
}

/// Non-negative least squares of relative errors over the runs that `used` keeps.
///
/// The optimum of NNLS is the plain least-squares solution on some subset of the columns; with
/// at most three columns all seven are tried.
fn solve(
    columns: &[&Monomial],
    points: &[Vec<u64>],
    values: &[f64],
    used: &dyn Fn(usize) -> bool,
) -> Vec<f64> {
    let rows: Vec<Vec<f64>> = (0..points.len())
        .filter(|&run| used(run))
        .map(|run| {
            let weight = 1.0 / values[run].max(1.0);
            let weighted = columns.iter().map(|term| term.unit(&points[run]) * weight);
            weighted.chain([values[run] * weight]).collect()
        })
        .collect();
    let mut best = (f64::INFINITY, vec![0.0; columns.len()]);
    for mask in 1u32..(1 << columns.len()) {
        let active: Vec<usize> = (0..columns.len()).filter(|column| mask >> column & 1 == 1).collect();
        let Some(part) = least_squares(&rows, &active) else { continue };
        if part.iter().any(|&coefficient| coefficient < 0.0) {
            continue;
        }
        let mut coefficients = vec![0.0; columns.len()];
        active.iter().zip(part).for_each(|(&column, coefficient)| coefficients[column] = coefficient);
        let misfit = |row: &Vec<f64>| {
            let fitted: f64 = row.iter().zip(&coefficients).map(|(a, c)| a * c).sum();
            (fitted - row[columns.len()]).powi(2)
        };
        let squares: f64 = rows.iter().map(misfit).sum();
        if squares < best.0 {
            best = (squares, coefficients);
        }
    }
    best.1
}

/// Least squares on the active columns by the normal equations, columns scaled to length one
/// first; the last entry of a row is what it should give. `None` where they are singular.
fn least_squares(rows: &[Vec<f64>], active: &[usize]) -> Option<Vec<f64>> {
    let norm = |&column: &usize| rows.iter().map(|row| row[column].powi(2)).sum::<f64>().sqrt();
    let norms: Vec<f64> = active.iter().map(norm).collect();
    if norms.iter().any(|norm| !norm.is_normal()) {
        return None;
    }
    let size = active.len();
    let scaled = |row: &[f64], i: usize| row[active[i]] / norms[i];
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for row in rows {
        let target = row[row.len() - 1];
        for (i, equation) in matrix.iter_mut().enumerate() {
            (0..size).for_each(|j| equation[j] += scaled(row, i) * scaled(row, j));
            equation[size] += scaled(row, i) * target;
        }
    }
    let solution = eliminate(matrix)?;
    Some(solution.iter().zip(&norms).map(|(x, norm)| x / norm).collect())
}

/// Gaussian elimination with pivoting on an augmented square system.
fn eliminate(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = matrix.len();
    for column in 0..size {
        let pivot =
            (column..size).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        matrix.swap(column, pivot);
        let head = matrix[column].clone();
        if head[column].abs() < 1e-13 {
            return None;
        }
        for row in (0..size).filter(|&row| row != column) {
            let factor = matrix[row][column] / head[column];
            (column..=size).for_each(|k| matrix[row][k] -= factor * head[k]);
        }
    }
    Some((0..size).map(|i| matrix[i][size] / matrix[i][i]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Vec<u64>> {
        vec![vec![41, 43, 47], vec![53, 37, 59], vec![31, 29, 61], vec![67, 71, 73], vec![83, 79, 89]]
    }

    #[test]
    fn finds_the_monomials_behind_noise() {
        let noise = [0.99, 1.01, 1.0, 0.995, 1.004];
        let truth = |p: &[u64]| 5e6 + 12.0 * (p[0] * p[1] * p[2]) as f64;
        let values: Vec<f64> = points().iter().zip(noise).map(|(p, noise)| truth(p) * noise).collect();
        let regression = fit(&points(), &values);
        let far = [200, 210, 220];
        assert!((regression.value(&far) / truth(&far) - 1.0).abs() < 0.05, "{regression:?}");
        assert!(regression.terms.iter().all(|term| term.coefficient > 0.0));
        assert!(regression.error > 0.0 && regression.error < 0.05);
    }

    #[test]
    fn finds_a_gram_matrix() {
        let values: Vec<f64> = points().iter().map(|p| 8.0 * (p[0] * p[0]) as f64).collect();
        let regression = fit(&points(), &values);
        assert_eq!(regression.terms.len(), 1, "{regression:?}");
        assert_eq!(regression.terms[0].powers, [2, 0, 0]);
        assert_eq!(regression.words(&["n0".into(), "n1".into(), "n2".into()]), "8.000000·n0^2");
    }

    #[test]
    fn one_run_or_absurd_points_do_not_panic() {
        let regression = fit(&[vec![7]], &[700.0]);
        assert_eq!(regression.at(&[7]), Some(700), "{regression:?}");
        assert_eq!(fit(&[], &[]).terms, vec![]);
        let steep = Regression {
            terms: vec![Monomial { coefficient: 1e300, ..Monomial::new(vec![2]) }],
            error: 0.0,
            runs: 1,
        };
        assert_eq!(steep.at(&[u64::MAX]), None);
    }
}
