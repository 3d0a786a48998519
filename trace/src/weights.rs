//! What a block with a call stack counts for in the sums of its site: where stacks are sampled, it
//! stands for others like it.

use crate::meta::Meta;

/// Where `meta.json` says from how many bytes on every block has a stack.
pub const EXACT_FROM: &str = "stacks_exact_from_bytes";
/// Where it says how many bytes of smaller blocks lie between two samples on average: the block of
/// a sample has a stack.
pub const SAMPLED_MEAN: &str = "stacks_sampled_mean_bytes";

/// Weights of heap blocks that have a stack; mappings count for themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SiteWeights {
    exact_from: u64,
    mean_bytes: u64,
}

impl SiteWeights {
    /// Those of a recording; each block counts for itself if `meta.json` says nothing.
    pub fn of(meta: &Meta) -> SiteWeights {
        let number = |name| meta.recorded.get(name).and_then(|number| number.parse().ok()).unwrap_or(0);
        SiteWeights { exact_from: number(EXACT_FROM), mean_bytes: number(SAMPLED_MEAN) }
    }

    /// What a block of `bytes` counts for: bytes / (1 − exp(−bytes / mean)) if it was sampled.
    #[inline]
    pub fn bytes(&self, bytes: u64) -> u64 {
        if self.is_exact(bytes) {
            return bytes;
        }
        let probability = -(-(bytes as f64) / self.mean_bytes as f64).exp_m1();
        (bytes as f64 / probability.max(f64::MIN_POSITIVE)).round() as u64
    }

    /// Bytes of small blocks between two samples on average; 0 if none is sampled.
    pub fn mean_bytes(&self) -> u64 {
        self.mean_bytes
    }

    /// True if every block of `bytes` has a stack.
    #[inline]
    pub fn is_exact(&self, bytes: u64) -> bool {
        bytes >= self.exact_from || self.mean_bytes == 0
    }

    /// Blocks that it counts for.
    #[inline]
    pub fn blocks(&self, bytes: u64) -> u64 {
        if self.is_exact(bytes) {
            return 1;
        }
        (self.bytes(bytes) as f64 / bytes.max(1) as f64).round().max(1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn weights(exact_from: u64, mean_bytes: u64) -> SiteWeights {
        let recorded = [(EXACT_FROM, exact_from), (SAMPLED_MEAN, mean_bytes)];
        let recorded = recorded.map(|(name, number)| (name.to_string(), number.to_string())).into();
        SiteWeights::of(&Meta { recorded, ..Meta::default() })
    }

    proptest! {
        /// What a block counts for, times the probability that it has a stack, is the block.
        #[test]
        fn sums_are_without_bias(bytes in 1..65536u64, mean in 1000..10_000_000u64) {
            let probability = 1.0 - (-(bytes as f64) / mean as f64).exp();
            let weights = weights(65536, mean);
            let rounding = 0.5 * probability + 1e-6 * bytes as f64;
            prop_assert!((weights.bytes(bytes) as f64 * probability - bytes as f64).abs() <= rounding);
            prop_assert!((weights.blocks(bytes) as f64 * probability - 1.0).abs() <= 0.51 * probability + 1e-6);
        }

        #[test]
        fn what_is_not_sampled_counts_for_itself(bytes: u64, exact_from: u64, mean: u64) {
            for weights in [SiteWeights::default(), weights(exact_from, 0), weights(exact_from.min(bytes), mean)] {
                prop_assert_eq!((weights.bytes(bytes), weights.blocks(bytes)), (bytes, 1));
            }
        }
    }
}
