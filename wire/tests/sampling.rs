//! The exponential distribution by integers against the one of the mathematics library.

use memtrace_wire::sampling::exponential;
use proptest::prelude::*;

proptest! {
    #[test]
    fn it_is_the_logarithm(random in any::<u64>(), small in 0u32..64) {
        let random = (random >> small) | 1;
        let exact = -((random as f64) / 2f64.powi(64)).ln() * 1e9;
        let found = exponential(random, 1_000_000_000) as f64;
        prop_assert!((found - exact).abs() <= 1e-6 * exact + 1e-6 * 1e9, "{found} {exact}");
    }
}

#[test]
fn its_mean_and_its_tail_are_those_of_the_distribution() {
    const DRAWS: u64 = 1_000_000;
    let mean = 512 * 1024;
    let draws: Vec<u64> =
        (0..DRAWS).map(|i| exponential((2 * i + 1).wrapping_mul(u64::MAX / (2 * DRAWS)), mean)).collect();
    let average = draws.iter().sum::<u64>() as f64 / DRAWS as f64;
    assert!((average / mean as f64 - 1.0).abs() < 1e-4, "{average}");
    let beyond = draws.iter().filter(|draw| **draw > 3 * mean).count() as f64 / DRAWS as f64;
    assert!((beyond - (-3f64).exp()).abs() < 1e-5, "{beyond}");
}
