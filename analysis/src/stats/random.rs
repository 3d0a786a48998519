//! Seeded random numbers: the same seed gives the same choices on every machine.

use std::f64::consts::TAU;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn seeded(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// One of so many numbers from 0 on.
    pub fn below(&mut self, count: usize) -> usize {
        (self.uniform() * count as f64) as usize
    }

    /// The numbers from 0 on in a random order (Fisher and Yates 1938).
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).rev().for_each(|last| order.swap(last, self.below(last + 1)));
        order
    }

    /// Standard normal (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }

    /// χ² with whole degrees of freedom: a sum of squares of normals.
    pub fn chi_square(&mut self, freedom: u32) -> f64 {
        (0..freedom).map(|_| self.normal().powi(2)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Random::seeded(7);
        let normal: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = normal.iter().sum::<f64>() / 2e4;
        let variance = normal.iter().map(|x| x * x).sum::<f64>() / 2e4;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        let chi = (0..5_000).map(|_| random.chi_square(6)).sum::<f64>() / 5e3;
        assert!((chi - 6.0).abs() < 0.2, "{chi}");
    }
}
