//! The sweep planner, driven with synthetic operators whose laws are known.

use crate::common::{Script, run};
use memtrace_analysis::Law;
use memtrace_analysis::fit::fit_profiles;
use memtrace_analysis::fit::verify::is_far;
use memtrace_analysis::law::Rule;
use memtrace_analysis::model::Proof;
use memtrace_analysis::profile::Profile;
use memtrace_analysis::shape::volume;
use memtrace_analysis::sweep::{Attempt, Limits, Next, Range, Recorded, Stop, next, next_data_values};
use proptest::prelude::*;

const BASELINE: u64 = 60_000_000;

/// A sweep that has ended.
struct Swept {
    attempts: Vec<Attempt>,
    laws: Vec<Law>,
    stop: Stop,
}

impl Swept {
    fn recorded(&self) -> Vec<&[u64]> {
        let good = self.attempts.iter().filter(|attempt| attempt.recorded.is_some());
        good.map(|attempt| attempt.shape.as_slice()).collect()
    }

    fn volumes(&self) -> Vec<u128> {
        self.recorded().into_iter().map(volume).collect()
    }
}

fn range(lower: &[u64], upper: &[u64]) -> Range {
    Range::new(lower.to_vec(), upper.to_vec()).unwrap()
}

fn limits(runs: usize, budget_bytes: u64) -> Limits {
    Limits { runs, budget_bytes }
}

/// What a process needs that runs this once.
fn peak(script: &Script, shape: &[u64]) -> u64 {
    BASELINE + 4 * volume(shape) as u64 + run("op", shape, script, 0).span.working_peak_bytes
}

fn laws(attempts: &[Attempt]) -> Vec<Law> {
    let good = attempts.iter().filter_map(|attempt| attempt.recorded.as_ref());
    let profiles: Vec<Profile> = good.map(|recorded| recorded.profile.clone()).collect();
    fit_profiles(&profiles).map(|model| model.laws).unwrap_or_default()
}

/// Runs a sweep of an operator; a run that needs more than `memory` is killed.
fn sweep(range: &Range, limits: Limits, memory: u64, script: &dyn Fn(&[u64]) -> Script) -> Swept {
    let mut attempts: Vec<Attempt> = Vec::new();
    loop {
        let laws = laws(&attempts);
        match next(range, limits, &attempts, &laws) {
            Next::Stop(stop) => return Swept { attempts, laws, stop },
            Next::Run(shape) => {
                let ends = range.lower.iter().zip(&range.upper);
                assert!(
                    shape.iter().zip(ends).all(|(n, (lower, upper))| lower <= n && n <= upper),
                    "{shape:?}"
                );
                assert!(attempts.iter().all(|attempt| attempt.shape != shape), "{shape:?} again");
                let peak_bytes = peak(&script(&shape), &shape);
                let recorded = (peak_bytes <= memory).then(|| Recorded {
                    peak_bytes,
                    profile: Profile::of_runs(vec![run("op", &shape, &script(&shape), 500)]),
                });
                attempts.push(Attempt { shape, recorded });
                assert!(attempts.len() < 50, "the sweep does not end");
            }
        }
    }
}

fn elements(shape: &[u64]) -> u64 {
    volume(shape) as u64
}

/// Three arrays, one of them trimmed.
fn stencil(shape: &[u64]) -> Script {
    let trimmed: u64 = shape.iter().map(|n| n.saturating_sub(2).max(1)).product();
    vec![(0, 4 * elements(shape)), (1, 24 * trimmed), (2, 72 * trimmed), (1, 0), (2, 0)]
}

/// Arrays padded to good lengths of an FFT.
fn padded(shape: &[u64]) -> Script {
    let good: u64 = shape.iter().map(|n| Rule::FastReal.of(n + 6).unwrap()).product();
    vec![(0, 16 * good), (1, 4 * elements(shape)), (0, 0)]
}

const PLENTY: u64 = 1 << 40;

#[test]
fn a_product_form_takes_three_coprime_shapes_and_one_verification_run() {
    for (lower, upper) in [
        (vec![30, 30, 30], vec![220, 220, 220]),
        (vec![300, 310], vec![3000, 2900]),
        (vec![9000], vec![9_999_999]),
    ] {
        let swept = sweep(&range(&lower, &upper), limits(8, PLENTY), PLENTY, &stencil);
        let shapes = swept.recorded();
        assert_eq!(swept.stop, Stop::Proved, "{shapes:?}");
        assert!(matches!(swept.laws[0].proof, Proof::Exact { .. }), "{:?}", swept.laws[0].proof);
        // One axis may take a further run: powers of two look like other forms.
        assert!(shapes.len() == 4 || (lower.len() == 1 && shapes.len() == 5), "{shapes:?}");
        let (last, training) = shapes.split_last().unwrap();
        assert!(lower.len() == 1 || swept.volumes().is_sorted(), "smallest first: {shapes:?}");
        assert!(volume(last) < 16 * volume(training[2]), "the cheapest that proves: {shapes:?}");
        for shape in training {
            assert!(is_far(last, shape) && 4 * volume(shape) >= 262_144 * 9 / 10, "{shapes:?}");
            let divisible = |n: u64| shape.iter().filter(|&&length| length % n == 0).count();
            assert!([2, 3, 5, 7].into_iter().all(|n| divisible(n) < 2), "{shapes:?}");
        }
    }
}

#[test]
fn each_axis_is_the_longest_in_some_run_and_the_range_is_kept() {
    let ratios = |lower: &[u64], upper: &[u64]| {
        let swept = sweep(&range(lower, upper), limits(8, PLENTY), PLENTY, &stencil);
        let shapes = swept.recorded();
        let inside = |shape: &&[u64]| shape.iter().zip(lower).zip(upper).all(|((n, a), b)| a <= n && n <= b);
        assert!(shapes.iter().all(inside), "{shapes:?}");
        shapes.iter().map(|shape| shape[0] as f64 / shape[1] as f64).collect::<Vec<_>>()
    };
    let found = ratios(&[120, 100], &[1600, 1400]);
    assert!(found[0] > 1.5 && found[1] < 0.9, "{found:?}");
    // Neither leaves the range, nor the room for a verification run.
    assert!(ratios(&[10_000, 20], &[400_000, 50]).len() > 2);
    let swept = sweep(&range(&[64, 64, 100], &[512, 512, 220]), limits(8, PLENTY), PLENTY, &stencil);
    assert_eq!(swept.stop, Stop::Proved, "{:?}", swept.recorded());
}

/// Lengths that have little in common are a few off the wished ones: never into that room.
#[test]
fn training_runs_leave_room_for_the_one_that_verifies() {
    for longest in 100..160 {
        let range = range(&[30, 30, 30], &[longest; 3]);
        let swept = sweep(&range, limits(8, PLENTY), PLENTY, &stencil);
        assert_eq!(swept.stop, Stop::Proved, "{:?} of {longest}", swept.recorded());
    }
}

#[test]
fn an_axis_of_one_length_hinders_no_proof() {
    let script = |s: &[u64]| vec![(0, 8 * s.iter().product::<u64>()), (0, 0)];
    let swept = sweep(&range(&[20, 20, 3], &[1000, 1000, 3]), limits(8, PLENTY), PLENTY, &script);
    assert_ne!(swept.laws[0].proof, Proof::Unverified, "{:?}: {:?}", swept.stop, swept.recorded());
}

#[test]
fn further_runs_are_where_the_remaining_forms_differ() {
    let swept = sweep(&range(&[30, 30, 30], &[220, 220, 220]), limits(8, PLENTY), PLENTY, &padded);
    let shapes = swept.recorded();
    assert_eq!(swept.stop, Stop::Proved, "{shapes:?}: {:?}", swept.laws[0].proof);
    // By spread it takes as many runs as are allowed, and some forms are left over.
    let far = [211, 227, 199];
    let error = swept.laws[0].bytes(&far).unwrap().working as f64 / peak_of(&padded, &far) - 1.0;
    assert!(error.abs() < 0.001, "{error} after {shapes:?}");
}

fn peak_of(script: &dyn Fn(&[u64]) -> Script, shape: &[u64]) -> f64 {
    run("op", shape, &script(shape), 0).span.working_peak_bytes as f64
}

#[test]
fn a_range_without_room_to_verify_is_said_with_what_it_takes() {
    let swept = sweep(&range(&[30, 30, 30], &[60, 60, 60]), limits(5, PLENTY), PLENTY, &stencil);
    assert_eq!(swept.recorded().len(), 4, "one more than needed has to agree");
    let Stop::Range { needed } = &swept.stop else { panic!("{:?}", swept.stop) };
    assert!(swept.recorded().iter().all(|shape| is_far(needed, shape)));
    assert!(swept.stop.to_string().contains("--shapes"));
}

#[test]
fn runs_are_capped() {
    let swept = sweep(&range(&[30, 30, 30], &[220, 220, 220]), limits(3, PLENTY), PLENTY, &stencil);
    assert_eq!((swept.attempts.len(), swept.stop), (3, Stop::Runs(3)));
}

#[test]
fn failures_teach_and_do_not_end_the_sweep() {
    // Memory for shapes of about 100³; the planner does not know.
    let memory = BASELINE + 105 * 1_000_000;
    let swept = sweep(&range(&[30, 30, 30], &[400, 400, 400]), limits(9, PLENTY), memory, &stencil);
    let failed: Vec<_> = swept.attempts.iter().filter(|attempt| attempt.recorded.is_none()).collect();
    assert!(failed.len() <= 2, "{}: {:?}", failed.len(), swept.stop);
    assert!(swept.recorded().len() >= 3);
    assert!(!swept.laws.is_empty());
    // Nothing but the smallest shapes works.
    let swept =
        sweep(&range(&[30, 30, 30], &[400, 400, 400]), limits(9, PLENTY), BASELINE + 5_000_000, &stencil);
    assert!(swept.recorded().len() >= 3, "{:?} after {:?}", swept.stop, swept.recorded());
    // Nothing works.
    let swept = sweep(&range(&[30, 30, 30], &[400, 400, 400]), limits(99, PLENTY), 0, &stencil);
    assert_eq!((swept.recorded().len(), swept.stop), (0, Stop::Failed));
}

#[test]
fn odd_ranges_end() {
    for (lower, upper) in
        [(vec![5], vec![50]), (vec![5], vec![7]), (vec![7, 100], vec![7, 300]), (vec![1, 1], vec![2, 2])]
    {
        let swept = sweep(&range(&lower, &upper), limits(5, PLENTY), PLENTY, &stencil);
        assert!(swept.recorded().len() >= 3, "{lower:?}: {:?}", swept.stop);
    }
    assert!(Range::new(vec![5], vec![6]).unwrap_err().to_string().contains("room for 2 different"));
    assert!(Range::new(vec![5], vec![4]).is_err());
    assert!(Range::new(vec![], vec![]).is_err());
}

#[test]
fn what_was_run_before_is_all_it_needs_to_know() {
    let range = range(&[30, 30, 30], &[220, 220, 220]);
    let swept = sweep(&range, limits(8, PLENTY), PLENTY, &padded);
    for done in 0..swept.attempts.len() {
        let before = &swept.attempts[..done];
        let chosen = next(&range, limits(8, PLENTY), before, &laws(before));
        assert_eq!(chosen, Next::Run(swept.attempts[done].shape.clone()));
    }
}

#[test]
fn other_data_values_are_run_at_a_shape_that_fits() {
    let range = range(&[30, 30, 30], &[220, 220, 220]);
    let swept = sweep(&range, limits(8, PLENTY), PLENTY, &stencil);
    let trained = &swept.recorded()[..3];
    let chosen = |budget| next_data_values(&range, limits(8, budget), &swept.attempts, &swept.laws);
    assert_eq!(chosen(PLENTY), Next::Run(trained[1].to_vec()));
    let between = (peak(&stencil(trained[0]), trained[0]) + peak(&stencil(trained[1]), trained[1])) / 2;
    assert_eq!(chosen(between), Next::Run(trained[0].to_vec()));
    let Next::Stop(Stop::Budget { shape, needs_bytes, .. }) = chosen(BASELINE) else {
        panic!("nothing fits")
    };
    assert!(shape == trained[0] && needs_bytes > BASELINE);
}

#[test]
fn an_axis_is_odd_in_some_runs_and_even_in_others() {
    for (lower, upper) in [(vec![9000], vec![9_999_999]), (vec![300, 310], vec![3000, 2900])] {
        let swept = sweep(&range(&lower, &upper), limits(8, PLENTY), PLENTY, &stencil);
        let shapes = swept.recorded();
        for axis in 0..lower.len() {
            let even = shapes[..3].iter().filter(|shape| shape[axis] % 2 == 0).count();
            assert!((1..3).contains(&even), "{shapes:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the operator's costs, no run exceeds the budget as long as memory grows no faster
    /// than predicted possible, and what can be proved within it is.
    #[test]
    fn no_run_exceeds_the_budget(
        per_element in 1u64..60,
        trimmed in 0u64..240,
        table in 0u64..200_000,
        budget_megabytes in 70u64..2000,
        upper in 60u64..500,
    ) {
        let script = |shape: &[u64]| {
            let inner: u64 = shape.iter().map(|n| n.saturating_sub(2).max(1)).product();
            let mut script = vec![(0, per_element * elements(shape)), (1, 4096 + 8 * table)];
            if trimmed > 0 {
                script.extend([(2, trimmed * inner), (2, 0)]);
            }
            script
        };
        let budget = budget_megabytes * 1_000_000;
        let range = range(&[30, 30, 30], &[upper; 3]);
        let swept = sweep(&range, limits(6, budget), PLENTY, &script);
        for (run, shape) in swept.recorded().iter().enumerate().skip(1) {
            prop_assert!(peak(&script(shape), shape) <= budget, "run {run} at {shape:?} of {:?}", swept.recorded());
        }
        let unknown = matches!(swept.stop, Stop::Budget { .. } | Stop::Range { .. } | Stop::Runs(_));
        prop_assert!(swept.stop == Stop::Proved || unknown, "{:?}", swept.stop);
        if let Some(law) = swept.laws.first() {
            let shape = [301, 203, 157];
            let error = law.bytes(&shape).unwrap().working as f64 / peak_of(&script, &shape) - 1.0;
            prop_assert!(error.abs() < 0.005, "{error} after {:?}", swept.recorded());
        }
    }
}
