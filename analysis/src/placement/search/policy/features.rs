//! What the policy sees of each object: itself, and on average what is live with it.

use crate::placement::search::instance::{Instance, Traits};

/// Numbers for an object itself.
const OWN: usize = 16;
/// Numbers for an object.
pub const FEATURES: usize = 2 * OWN;

/// The objects are nodes of a graph, joined where they are live together.
pub fn features(instance: &Instance) -> Vec<[f64; FEATURES]> {
    let own = own(instance);
    let around = around(instance, &own);
    let both = |(own, around): (&[f64; OWN], [f64; OWN])| {
        std::array::from_fn(|at| if at < OWN { own[at] } else { around[at - OWN] })
    };
    own.iter().zip(around).map(both).collect()
}

fn own(instance: &Instance) -> Vec<[f64; OWN]> {
    let peak = instance.peak().max(1) as f64;
    let capacity = instance.capacity.max(1) as f64;
    let all: f64 = instance.items.iter().map(|item| item.bytes as f64).sum();
    let bytes = |item: usize| instance.items[item].bytes.max(1) as f64;
    // Samples for a byte, against those of all objects.
    let density = |item: usize| {
        let share = instance.traits[item].time_share.unwrap_or(0.0);
        ((share + 1e-4) / (bytes(item) / all.max(1.0) + 1e-4)).ln()
    };
    let degrees = degrees(instance, peak);
    let by_bytes = ranks(instance.items.len(), bytes);
    let by_density = ranks(instance.items.len(), density);
    let of = |item: usize| {
        let Traits { blocks, siblings, begin, end, live, reuse_bytes, time_share } = instance.traits[item];
        [
            (bytes(item) / peak).ln() / 4.0,
            (bytes(item) / peak).min(2.0),
            (bytes(item) / capacity).min(2.0),
            (blocks.max(1) as f64).ln() / 4.0,
            (siblings.max(1) as f64).ln() / 4.0,
            begin,
            end,
            live,
            (reuse_bytes / peak).ln_1p(),
            degrees[item],
            item as f64 / instance.items.len() as f64,
            by_bytes[item],
            (capacity / peak).min(2.0),
            f64::from(u8::from(time_share.is_some())),
            time_share.map_or(0.0, |_| density(item).clamp(-4.0, 4.0) / 2.0),
            time_share.map_or(0.0, |_| by_density[item]),
        ]
    };
    (0..instance.items.len()).map(of).collect()
}

/// What is live with an object, as a share of the peak, on average.
fn degrees(instance: &Instance, peak: f64) -> Vec<f64> {
    let mut sums = vec![(0.0, 0u32); instance.items.len()];
    for set in &instance.together {
        let bytes: f64 = set.iter().map(|item| instance.items[*item].bytes as f64).sum();
        for item in set {
            sums[*item].0 += bytes / peak;
            sums[*item].1 += 1;
        }
    }
    sums.into_iter().map(|(sum, sets)| sum / f64::from(sets.max(1))).collect()
}

/// From 0 (the least) to 1: where a number is among all.
fn ranks(count: usize, number: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| number(*one).total_cmp(&number(*other)));
    let mut ranks = vec![0.0; count];
    let last = count.saturating_sub(1).max(1) as f64;
    order.into_iter().enumerate().for_each(|(rank, item)| ranks[item] = rank as f64 / last);
    ranks
}

/// The mean of what is live with each object, by bytes.
fn around(instance: &Instance, own: &[[f64; OWN]]) -> Vec<[f64; OWN]> {
    let mut sums = vec![([0.0; OWN], 0u32); own.len()];
    for set in &instance.together {
        let mut mean = [0.0; OWN];
        let all: f64 = set.iter().map(|item| instance.items[*item].bytes as f64).sum();
        for item in set {
            let share = instance.items[*item].bytes as f64 / all.max(1.0);
            mean.iter_mut().zip(&own[*item]).for_each(|(mean, own)| *mean += share * own);
        }
        for item in set {
            sums[*item].0.iter_mut().zip(&mean).for_each(|(sum, mean)| *sum += mean);
            sums[*item].1 += 1;
        }
    }
    sums.into_iter().map(|(sum, sets)| sum.map(|each| each / f64::from(sets.max(1)))).collect()
}
