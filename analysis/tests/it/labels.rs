//! No label is stronger than its evidence.

use crate::common::{Script, profile, run, small_shapes};
use memtrace_analysis::fit::fit_profiles;
use memtrace_analysis::profile::Run;
use memtrace_analysis::{Model, Query, predict};

const FAR: [u64; 3] = [121, 117, 119];

fn volume(shape: &[u64]) -> u64 {
    shape.iter().product()
}

fn fitted(script: impl Fn(&[u64]) -> Script, shapes: &[Vec<u64>]) -> Model {
    fit_profiles(&profile(shapes.iter().map(|shape| run("op", shape, &script(shape), 0)).collect())).unwrap()
}

fn with_far() -> Vec<Vec<u64>> {
    [small_shapes(), vec![FAR.to_vec()]].concat()
}

fn said(model: &Model, shape: &[u64]) -> (u64, String) {
    let predicted = predict(&model.laws[0], shape).unwrap();
    (predicted.peak_bytes, predicted.confidence)
}

#[test]
fn a_block_that_the_verification_run_refutes_takes_the_proof_away() {
    // The second block is below the peak at all these shapes, and grows faster beyond.
    let script = |growth: fn(u64) -> u64| {
        move |s: &[u64]| vec![(0, 40 * volume(s)), (0, 0), (1, 8 * s[1] * s[2] * growth(s[0])), (1, 0)]
    };
    assert_eq!(said(&fitted(script(|n| n), &with_far()), &[200, 210, 220]).1, "exact");
    let grows = fitted(script(|n| if n < 100 { n } else { 3 * n }), &with_far());
    assert_eq!(said(&grows, &[200, 210, 220]).1, "unverified");
    // Small blocks that come with the length refute nothing.
    let tables = |s: &[u64]| {
        let table = if s[0] > 100 { vec![(1, 4100), (1, 0)] } else { vec![] };
        [vec![(0, 40 * volume(s))], table, vec![(0, 0)]].concat()
    };
    assert_eq!(said(&fitted(tables, &with_far()), &[200, 210, 220]).1, "exact");
}

#[test]
fn a_law_that_leaves_a_shape_out_says_so() {
    // One shape of the five takes another course and needs four times as much.
    let script = |s: &[u64]| match s[0] {
        49 => vec![(0, 8 * volume(s)), (1, 8 * volume(s)), (2, 16 * volume(s))],
        _ => vec![(0, 8 * volume(s)), (0, 0)],
    };
    let model = fitted(script, &with_far());
    assert_eq!(said(&model, &[60, 61, 62]).1, "unverified", "{:?}", model.laws[0].notes);
}

#[test]
fn the_bound_of_the_worst_data_values_covers_every_run() {
    let shapes = small_shapes();
    let usual = shapes.iter().map(|s| run("op", s, &vec![(0, 8 * volume(s))], 0));
    // Other data values, at one shape only, take a course of their own.
    let other = run("op", &shapes[1], &vec![(0, 16 * volume(&shapes[1])), (1, 16 * volume(&shapes[1]))], 0);
    let measured = other.span.working_peak_bytes;
    let model = fit_profiles(&profile(usual.chain([other]).collect())).unwrap();
    let predicted = predict(&model.laws[0], &shapes[1]).unwrap();
    assert_eq!(predicted.data_dependent, Some(true));
    assert!(predicted.upper_bytes >= measured, "{} of {measured}", predicted.upper_bytes);
}

#[test]
fn merging_keeps_what_either_knows_of_data_values() {
    let shapes = small_shapes();
    let steady = |s: &Vec<u64>| run("op", s, &vec![(0, 8 * volume(s))], 0);
    let worst = |s: &Vec<u64>| run("op", s, &vec![(0, 24 * volume(s))], 0);
    let of = |runs: Vec<Run>| fit_profiles(&profile(runs)).unwrap();
    let far = FAR.to_vec();
    let calm = of(shapes.iter().chain([&far]).map(steady).collect());
    let wild = of(shapes.iter().flat_map(|s| [steady(s), worst(s)]).collect());
    for merged in [calm.merge(&wild), wild.merge(&calm)] {
        let predicted = predict(&merged.laws[0], &shapes[2]).unwrap();
        assert_eq!(predicted.data_dependent, Some(true));
        assert!(predicted.upper_bytes >= 24 * volume(&shapes[2]), "{predicted:?}");
        assert_eq!(predicted.confidence, "unverified");
    }
}

#[test]
fn few_runs_calibrate_nothing() {
    let noise = |s: &[u64]| vec![(0, 8 * volume(s)), (1, volume(s) * (3 + s[0] * 7919 % 11) / 2)];
    let model = fitted(noise, &with_far());
    assert_eq!(said(&model, &[60, 61, 62]).1, "unverified");
}

#[test]
fn an_axis_that_never_varied_hinders_no_proof() {
    let shapes = [[100, 110, 3], [130, 121, 3], [143, 150, 3], [430, 441, 3]].map(|shape| shape.to_vec());
    let model = fitted(|s| vec![(0, 8 * volume(s))], &shapes);
    let (bytes, confidence) = said(&model, &[700, 650, 3]);
    assert_eq!(bytes, 8 * 700 * 650 * 3);
    assert_ne!(confidence, "unverified");
}

#[test]
fn a_shape_chooses_among_laws_of_other_ranks() {
    let shapes = [vec![100, 110], vec![130, 121], vec![143, 150]];
    let runs =
        shapes.iter().chain(&small_shapes()).map(|s| run("op", s, &vec![(0, 8 * volume(s))], 0)).collect();
    let model = fit_profiles(&profile(runs)).unwrap();
    assert!(model.find(&Query { operator: "op", ..Query::default() }).is_err());
    for dims in [2, 3] {
        let law = model.find(&Query { operator: "op", dims: Some(dims), ..Query::default() }).unwrap();
        assert_eq!(law.variables.len(), dims);
    }
}

#[test]
fn sizes_and_loops_that_have_too_many_readings_end_all_the_same() {
    // Of highly composite lengths nearly every rule divides nearly every size.
    let shapes = [[4, 6, 5, 3], [6, 8, 7, 4], [8, 12, 11, 6]].map(|shape| shape.to_vec());
    let model = fitted(|s| vec![(0, 720_720 * s[0] * s[1])], &shapes);
    assert!(model.laws[0].bytes(&[8, 12, 11, 6]).is_ok());
    // One block grows from turn to turn and one shrinks: no turn stands for the others.
    let turns = |s: &[u64]| {
        let turn = |n: u64| [(0, 100_000 + 8 * n), (0, 0), (1, 900_000 - 8 * n), (1, 0)];
        (0..100 * s[0]).flat_map(turn).collect()
    };
    let model = fitted(turns, &small_shapes());
    assert!(model.laws[0].bytes(&[50, 50, 50]).is_ok());
}
