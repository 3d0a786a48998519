use proptest::prelude::*;

use super::*;
use crate::law::{Factor, Form, Rule, Sequence, Size};
use crate::model::{Body, Key, Law, Model, Proof, Seconds, TrainingRun, Variable};
use crate::stats::regression::Monomial;
use crate::stats::regression::Regression;

/// `coefficient · n0 · n1`
fn size(coefficient: u64) -> Size {
    let factor = |variable| Factor { variable, rule: Rule::Length, offset: 0, power: 1 };
    Size::Exact {
        form: Form { coefficient, factors: vec![factor(0), factor(1)], constant: 0 },
        others: vec![],
    }
}

fn law(body: Body, proof: Proof) -> Law {
    let variable = |name: &str| Variable { name: name.into(), min: 100, max: 200 };
    let key =
        Key { operator: "module:filter".into(), dtype: "<f4".into(), layout: "C".into(), ..Key::default() };
    let run = TrainingRun { shape: vec![200, 200], working_peak_bytes: 480_000, seconds: 0.01 };
    Law {
        key,
        variables: vec![variable("n0"), variable("n1")],
        body,
        proof,
        trained_on: vec![run],
        seconds: Seconds { per_element: 1e-7, ..Seconds::default() },
        ..Law::default()
    }
}

/// Has live 4, 12, then 8 and 20 times the cells: the peak is the last step but three.
fn sequence() -> Sequence {
    Sequence {
        threshold_bytes: 4096,
        sizes: vec![size(4), size(8), size(12)],
        steps: vec![1, 2, -1, 3, -2, -3],
        ..Sequence::default()
    }
}

fn exact() -> Proof {
    Proof::Exact { shape: vec![400, 400], error: 0.0 }
}

fn regression() -> Body {
    let term = |coefficient, powers| Monomial { coefficient, powers, up_to: None };
    Body::Regression(Regression {
        terms: vec![term(1e4, vec![0, 0]), term(10.0, vec![1, 1])],
        error: 0.05,
        runs: 6,
    })
}

proptest! {
    #[test]
    fn a_law_follows_what_it_observes_and_bounds_it(
        scale in 0.7..1.5f64,
        offset in 0.0..100_000.0f64,
        symbolic in any::<bool>(),
    ) {
        let body = if symbolic { Body::Symbolic(sequence()) } else { regression() };
        let mut law = law(body, Proof::Unverified);
        let truth = |law: &Law, shape: &[u64]| scale * law.plain_bytes(shape).unwrap().working as f64 + offset;
        for n in 1..60 {
            let shape = [100 + 13 * n % 100, 100 + 29 * n % 100];
            law.observe(&shape, truth(&law, &shape) as u64, None).unwrap();
        }
        let shape = [150, 160];
        let (bytes, wanted) = (law.bytes(&shape).unwrap(), truth(&law, &shape));
        prop_assert!((bytes.working as f64 / wanted - 1.0).abs() < 0.02, "{bytes:?} {wanted}");
        prop_assert!(bytes.working_upper as f64 >= wanted * 0.99);
    }

    #[test]
    fn observations_never_panic_and_leave_a_law_that_can_be_read(
        shape in prop::collection::vec(0u64..u64::MAX, 0..4),
        bytes in any::<u64>(),
        seconds in any::<f64>(),
    ) {
        let mut model = Model { laws: vec![law(regression(), exact())], ..Model::default() };
        let _ = model.laws[0].observe(&shape, bytes, Some(seconds));
        let _ = model.laws[0].observe(&[120, 130], bytes, Some(seconds));
        prop_assert_eq!(Model::parse(&model.to_json().unwrap()).unwrap(), model);
    }

    /// Whatever a program does: no panic, and never less than what it has had live already.
    #[test]
    fn a_forecast_is_at_least_the_peak_so_far(
        events in prop::collection::vec((any::<bool>(), 0u64..2_000_000), 0..80),
    ) {
        let mut tracker = Tracker::new(&law(Body::Symbolic(sequence()), exact()), &[150, 150]).unwrap();
        let (mut live, mut peak) = (0u64, 0);
        for (allocates, bytes) in events {
            if allocates { tracker.allocated(bytes) } else { tracker.released(bytes) }
            live = if allocates { live + bytes } else { live.saturating_sub(bytes) };
            peak = peak.max(live);
            prop_assert!(tracker.forecast().peak_bytes >= peak);
        }
    }
}

#[test]
fn an_exact_law_is_called_so_until_it_is_contradicted() {
    let mut law = law(Body::Symbolic(sequence()), exact());
    let before = law.bytes(&[300, 300]).unwrap();
    law.observe(&[300, 300], before.working + 1000, Some(2.0)).unwrap();
    let after = law.bytes(&[300, 300]).unwrap();
    assert_eq!((after.working, after.working_upper), (before.working, before.working_upper));
    assert!(after.seconds > before.seconds);
    let observed = law.observe(&[300, 300], before.working * 102 / 100, None).unwrap();
    assert_eq!((observed.proof.as_str(), law.notes.len()), ("unverified", 1));
    assert!(law.bytes(&[300, 300]).unwrap().working > before.working);
}

fn follow(shape: [u64; 2], events: &[i64]) -> Forecast {
    let mut tracker = Tracker::new(&law(Body::Symbolic(sequence()), exact()), &shape).unwrap();
    for &event in events {
        if event > 0 { tracker.allocated(event as u64) } else { tracker.released(event.unsigned_abs()) }
    }
    tracker.forecast()
}

#[test]
fn a_call_as_its_law_says_keeps_the_law_s_peak() {
    let cells = 150 * 150;
    let events = [4, 8, -4, 12, -8, -12].map(|part| part * cells);
    for done in 0..=6 {
        let forecast = follow([150, 150], &events[..done]);
        assert_eq!(forecast.peak_bytes, 20 * 150 * 150, "{done}");
        assert!((forecast.progress.unwrap() - done as f64 / 6.0).abs() < 1e-9);
    }
}

/// One-time bytes belong to the prediction of a first call from its begin on, and count once.
#[test]
fn a_first_call_is_predicted_with_its_one_time_bytes() {
    let mut law = law(Body::Symbolic(sequence()), exact());
    let cells: i64 = 150 * 150;
    let (steady, bytes) = (20 * cells.unsigned_abs(), 34_000_000);
    let block = serde_json::json!({"kind": "map_anonymous", "bytes": bytes});
    law.one_time = serde_json::from_value(serde_json::json!({"bytes": bytes, "blocks": [block]})).unwrap();
    let events = [4, 8, -4, 12, -8, -12].map(|part| part * cells);
    for before in 0..4 {
        let mut tracker = Tracker::of_first_call(&law, &[150, 150]).unwrap();
        let mut forecasts = vec![tracker.forecast().peak_bytes];
        for (at, event) in events.into_iter().enumerate() {
            if at == before {
                tracker.allocated(bytes);
                forecasts.push(tracker.forecast().peak_bytes);
            }
            if event > 0 {
                tracker.allocated(event as u64)
            } else {
                tracker.released(event.unsigned_abs())
            }
            forecasts.push(tracker.forecast().peak_bytes);
        }
        let wanted = steady + bytes;
        for forecast in forecasts {
            assert!(forecast.abs_diff(wanted) <= wanted / 100, "{before}: {forecast} {wanted}");
        }
    }
    // None came: another operator had made them before.
    let mut tracker = Tracker::of_first_call(&law, &[150, 150]).unwrap();
    assert_eq!(tracker.forecast().least_bytes, steady);
    for event in events {
        if event > 0 { tracker.allocated(event as u64) } else { tracker.released(event.unsigned_abs()) }
    }
    assert_eq!(tracker.forecast().peak_bytes, steady);
}

#[test]
fn a_larger_input_shows_at_the_first_block() {
    let cells = 300 * 150;
    let forecast = follow([150, 150], &[4 * cells]);
    assert!((forecast.peak_bytes as f64 / (20 * cells) as f64 - 1.0).abs() < 0.15, "{forecast:?}");
    let forecast = follow([150, 150], &[4 * cells, 8 * cells, -4 * cells]);
    assert!((forecast.peak_bytes as f64 / (20 * cells) as f64 - 1.0).abs() < 0.05, "{forecast:?}");
}

#[test]
fn a_second_copy_counts_and_a_loop_does_not() {
    let cells = 150 * 150;
    let forecast = follow([150, 150], &[5 * cells, 4 * cells, 8 * cells]);
    assert_eq!(forecast.peak_bytes, 25 * 150 * 150);
    // What the law does once, four times over.
    let round = [4, 8, -4, 12, -8, -12].map(|part| part * cells);
    let looped: Vec<i64> = round.iter().copied().cycle().take(6 * 3 + 2).collect();
    assert_eq!(follow([150, 150], &looped).peak_bytes, 20 * 150 * 150);
}
