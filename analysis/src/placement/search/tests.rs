//! Searches and baselines on small instances, against all choices there are.

use std::time::Duration;

use super::*;

/// Objects that begin in this order, all live together: bytes, gain, and share of the samples.
fn instance(objects: &[(u64, f64, f64)], capacity: u64) -> Instance {
    let traits = |(_, _, share): &(u64, f64, f64)| Traits {
        blocks: 1,
        siblings: 1,
        begin: 0.0,
        end: 1.0,
        live: 1.0,
        reuse_bytes: 0.0,
        time_share: Some(*share),
    };
    Instance {
        items: objects.iter().map(|(bytes, gain, _)| Item { gain: *gain, bytes: *bytes }).collect(),
        traits: objects.iter().map(traits).collect(),
        together: vec![(0..objects.len()).collect()],
        capacity,
    }
}

fn some() -> Instance {
    instance(&[(45, 1.0, 0.1), (30, 5.0, 0.4), (30, 0.5, 0.0), (50, 4.0, 0.5), (10, 0.2, 0.3)], 80)
}

/// A draw of instances of twelve objects, with those that are live at four times.
fn drawn(seed: u64) -> Instance {
    let mut random = Random::seeded(seed);
    let object = |random: &mut Random| (1 + random.below(60) as u64, random.normal(), random.uniform());
    let objects: Vec<_> = (0..12).map(|_| object(&mut random)).collect();
    let mut instance = instance(&objects, random.below(200) as u64);
    instance.together = (0..4).map(|_| (0..12).filter(|_| random.uniform() < 0.5).collect()).collect();
    instance
}

#[test]
fn every_search_and_baseline_fits() {
    for seed in 0..50 {
        let instance = drawn(seed);
        let exact = Search::Exact.choice(&instance);
        for search in [Search::Evolve, Search::Policy, Search::Random] {
            let choice = search.choice(&instance);
            assert!(instance.used(&choice.fast) <= instance.capacity, "{search:?} {seed}");
            assert!(choice.gain <= exact.gain + 1e-9, "{search:?} {seed}");
            assert!(choice.bound >= exact.gain - 1e-9, "{search:?} {seed}");
            assert_eq!(choice, search.choice(&instance), "the same choice each time");
        }
        for baseline in Baseline::ALL {
            let fast = baseline.choice(&instance, seed);
            assert!(instance.used(&fast) <= instance.capacity, "{baseline:?} {seed}");
        }
    }
}

#[test]
fn evolution_gains_more_the_more_it_tries() {
    let gained = |evaluations| {
        let of = |seed| {
            let instance = drawn(seed);
            instance.gain(&evolved(&instance, evaluations, seed))
        };
        (0..40).map(of).sum::<f64>()
    };
    let best: f64 = (0..40).map(|seed| Search::Exact.choice(&drawn(seed)).gain).sum();
    let (few, many) = (gained(20), gained(2000));
    assert!(few < many && many > 0.95 * best, "{few} {many} of {best}");
    assert_eq!(gained(0), 0.0);
}

#[test]
fn baselines_fill_in_their_order() {
    let fast = |baseline: Baseline| baseline.choice(&some(), 1);
    assert_eq!(fast(Baseline::FirstTouch), [true, true, false, false, false]);
    // Samples a byte: 0.002, 0.013, 0, 0.01, 0.03.
    assert_eq!(fast(Baseline::Density), [false, true, true, false, true]);
    // Half of the bytes have been brought when an object has its turn.
    assert_eq!(fast(Baseline::Interleave), [false, true, false, false, true]);
    let orders: Vec<_> = (0..20).map(|seed| Baseline::Random.choice(&some(), seed)).collect();
    assert!(orders.iter().any(|order| *order != orders[0]));
}

#[test]
fn a_policy_learns_what_the_exact_choice_has() {
    // What is met by samples gains; sizes say nothing.
    let of = |seed| {
        let mut random = Random::seeded(seed);
        let objects: Vec<_> = (0..30)
            .map(|_| {
                let (bytes, gain) = (1 + random.below(60) as u64, random.uniform().powi(3));
                (bytes, gain, gain)
            })
            .collect();
        instance(&objects, 300)
    };
    let trained = Network::trained(&(0..10).map(of).collect::<Vec<_>>(), 7);
    let share = |network: &Network| {
        let of = |seed| {
            let instance = of(seed);
            instance.gain(&network.choice(&instance)) / Search::Exact.choice(&instance).gain
        };
        (100..120).map(of).sum::<f64>() / 20.0
    };
    let untrained = Network::drawn(&mut Random::seeded(7));
    assert!(share(&trained) > 0.93, "{}", share(&trained));
    assert!(share(&trained) > share(&untrained) + 0.1, "{}", share(&untrained));
}

/// What the best of all choices between three tiers gains.
fn best_of_all(instance: &Instance, middle_gains: &[f64], middle_bytes: u64) -> f64 {
    let count = instance.items.len();
    let middle = Instance { capacity: middle_bytes, ..instance.clone() };
    let choices = (0..3usize.pow(count as u32)).map(|number| {
        let tier = |item: usize| number / 3usize.pow(item as u32) % 3;
        let of = |wanted: usize| (0..count).map(|item| tier(item) == wanted).collect::<Vec<bool>>();
        let (in_fast, in_middle) = (of(1), of(2));
        let fits = instance.used(&in_fast) <= instance.capacity && middle.used(&in_middle) <= middle_bytes;
        let gains = middle_gains.iter().zip(&in_middle).filter(|(_, is_there)| **is_there);
        if fits { instance.gain(&in_fast) + gains.map(|(gain, _)| gain).sum::<f64>() } else { 0.0 }
    });
    choices.fold(0.0, f64::max)
}

#[test]
fn the_choice_between_three_tiers_is_the_best_there_is() {
    for seed in 0..60 {
        let mut random = Random::seeded(seed);
        let objects: Vec<_> =
            (0..7).map(|_| (1 + random.below(60) as u64, random.normal(), random.uniform())).collect();
        let mut instance = instance(&objects, random.below(120) as u64);
        instance.together = (0..3).map(|_| (0..7).filter(|_| random.uniform() < 0.6).collect()).collect();
        let middle_gains: Vec<f64> =
            objects.iter().map(|(_, gain, _)| gain * (0.3 + random.uniform())).collect();
        let middle_bytes = random.below(150) as u64;
        let choice = best_of_three(&instance, &middle_gains, middle_bytes, Duration::from_secs(100));
        let best = best_of_all(&instance, &middle_gains, middle_bytes);
        assert!((choice.gain - best).abs() < 1e-5 * best.max(1.0), "{seed}: {} of {best}", choice.gain);
        assert!(choice.bound >= best - 1e-9, "{seed}");
        let twice = choice.fast.iter().zip(&choice.middle).any(|(fast, middle)| *fast && *middle);
        assert!(!twice && instance.used(&choice.fast) <= instance.capacity, "{seed}");
        let middle = Instance { capacity: middle_bytes, ..instance };
        assert!(middle.used(&choice.middle) <= middle_bytes, "{seed}");
    }
}
