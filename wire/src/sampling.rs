//! Which blocks come with their call stack: large ones all, of small ones some, so that sums over
//! them stay right.
//!
//! A Poisson process marks one byte in [`Sampling::mean_bytes`], on average, of all that a thread
//! requests, and a block with a mark in it gets a stack. So a block of `s` bytes gets one with the
//! probability 1 − exp(−s/mean), and stands for s / (1 − exp(−s/mean)) bytes of its like.

/// Which blocks and mappings come with their call stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sampling {
    /// All of at least this many bytes.
    pub exact_from: u64,
    /// Of smaller blocks one for this many bytes on average, by a Poisson process; 0: none of them.
    pub mean_bytes: u64,
}

impl Sampling {
    /// No stacks at all.
    pub const NONE: Sampling = Sampling { exact_from: u64::MAX, mean_bytes: 0 };
    /// A stack for every block.
    pub const ALL: Sampling = Sampling { exact_from: 0, mean_bytes: 0 };
    /// What a program hardly notices.
    pub const AUTO: Sampling = Sampling { exact_from: 64 * 1024, mean_bytes: 512 * 1024 };
}

/// Bits behind the binary point of [`exponential`].
const POINT: u32 = 32;
const fn fixed(value: f64) -> u64 {
    (value * (1u64 << POINT) as f64) as u64
}

const LN_2: u64 = fixed(core::f64::consts::LN_2);
const SERIES: [u64; 6] =
    [fixed(1.0 / 11.0), fixed(1.0 / 9.0), fixed(1.0 / 7.0), fixed(1.0 / 5.0), fixed(1.0 / 3.0), fixed(1.0)];

/// A number with the mean `mean` whose distances are exponentially distributed, from 64 random
/// bits: −ln(u) · mean. Integers only: the program may have set its floating-point unit to trap.
pub fn exponential(random: u64, mean: u64) -> u64 {
    let random = random | 1;
    let zeros = random.leading_zeros();
    // u = (1 + fraction) / 2^(zeros + 1)
    let fraction = (random << zeros << 1) >> POINT;
    // ln(1 + f) = 2 artanh(f / (2 + f)), and that is at most 1/3.
    let t = (fraction << POINT) / ((2 << POINT) + fraction);
    let square = (t * t) >> POINT;
    let series = SERIES.iter().fold(0, |sum, factor| ((sum * square) >> POINT) + factor);
    let logarithm = 2 * ((t * series) >> POINT);
    let negative = (u64::from(zeros) + 1) * LN_2 - logarithm;
    ((u128::from(negative) * u128::from(mean)) >> POINT) as u64
}
