//! Quantiles of Student's t distribution with whole degrees of freedom.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// With more degrees of freedom the quantiles are no longer distinguished: those of this many are a
/// little wider, which is on the safe side.
const MOST_FREEDOM: u32 = 300;

/// The value that a t-distributed variable stays below with this probability, 0 < p < 1.
///
/// The distribution function has a finite sum for whole degrees of freedom (Abramowitz and Stegun,
/// Handbook of Mathematical Functions, 26.7.3 and 26.7.4); it is inverted by bisection.
pub fn quantile(probability: f64, freedom: u32) -> f64 {
    let freedom = freedom.clamp(1, MOST_FREEDOM);
    let wanted = (2.0 * probability - 1.0).abs();
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < wanted { low = middle } else { high = middle }
    }
    f64::from(freedom).sqrt() * low.tan() * (probability - 0.5).signum()
}

/// P(|t| ≤ √ν·tan θ).
fn within(angle: f64, freedom: u32) -> f64 {
    let (sin, cos) = angle.sin_cos();
    let odd = freedom % 2;
    // The sum's terms: cosᵏ·(product of even over odd numbers, or the other way round) below ν.
    let (mut term, mut sum) = (if odd == 1 { cos } else { 1.0 }, 0.0);
    let mut power = odd;
    while power + 2 <= freedom {
        sum += term;
        term *= cos * cos * f64::from(power + 1) / f64::from(power + 2);
        power += 2;
    }
    if odd == 1 { FRAC_2_PI * (angle + sin * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 26.10 of the same handbook.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, freedom, expected) in [
            (0.95, 1, 6.314),
            (0.975, 2, 4.303),
            (0.975, 3, 3.182),
            (0.995, 4, 4.604),
            (0.9995, 7, 5.408),
            (0.975, 10, 2.228),
            (0.95, 30, 1.697),
            (0.9, 120, 1.289),
        ] {
            let found = quantile(probability, freedom);
            assert!((found - expected).abs() < 6e-4, "{probability} {freedom}: {found}, not {expected}");
            assert!((quantile(1.0 - probability, freedom) + found).abs() < 1e-9);
        }
        assert_eq!(quantile(0.5, 5), 0.0);
    }
}
