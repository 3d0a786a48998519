//! Laws from synthetic allocation programs whose true peak is known at every shape.

use std::sync::Arc;

use crate::common::{Script, profile, run, small_shapes};
use memtrace_analysis::fit::fit_profiles;
use memtrace_analysis::model::{Body, Law, Proof};
use memtrace_analysis::predict;
use memtrace_trace::rows::ArrayInfo;
use proptest::prelude::*;

fn law_of(shapes: &[Vec<u64>], script: impl Fn(&[u64]) -> Script) -> Law {
    let runs = shapes.iter().map(|shape| run("op", shape, &script(shape), 700)).collect();
    let mut model = fit_profiles(&profile(runs)).expect("a law");
    assert_eq!(model.laws.len(), 1);
    model.laws.remove(0)
}

fn true_peak(shape: &[u64], script: &Script) -> u64 {
    run("op", shape, script, 700).span.working_peak_bytes
}

/// GST3D of operators.md: 12V of pinned bases, six components, the copy, what `eigh` needs.
fn gst3d(shape: &[u64]) -> Script {
    let volume: u64 = shape.iter().product();
    let inner: u64 = shape.iter().map(|n| n - 2).product();
    let mut script: Script = (0..3).map(|axis| (axis, 4 * volume)).collect();
    script.extend((3..9).map(|component| (component, 4 * inner)));
    script.extend([(9, 36 * inner), (10, 72 * inner), (11, 24 * inner), (12, 72 * inner), (10, 0)]);
    script.extend([(13, 4 * inner), (12, 0)]);
    script
}

/// A separable filter: a 4V output, and per axis two line buffers of at most 256,000 bytes.
fn gaussian(shape: &[u64]) -> Script {
    let mut script = vec![(0, 4 * shape.iter().product::<u64>())];
    for n in shape {
        let line = 8 * (n + 24);
        script.extend([(1, 256_000 / line * line), (2, 256_000 / (8 * n) * (8 * n)), (2, 0), (1, 0)]);
    }
    script
}

#[test]
fn gst3d_from_60_cubed_is_exact_at_200_cubed() {
    let law = law_of(&small_shapes(), gst3d);
    let prediction = predict(&law, &[200, 200, 200]).unwrap();
    let truth = true_peak(&[200, 200, 200], &gst3d(&[200, 200, 200]));
    assert_eq!(prediction.peak_bytes, truth);
    assert_eq!(prediction.total_bytes, 16 * 8_000_000 + 228 * 198 * 198 * 198 + 700);
    assert_eq!(prediction.formula(), "228·(n0−2)·(n1−2)·(n2−2) + 12·n0·n1·n2");
    // Only the 700 small bytes may grow, as much as the volume.
    let grown = 700 * 8_000_000 / (58 * 59 * 55);
    assert!((truth..=truth + grown).contains(&prediction.upper_bytes), "{prediction:?}");
    assert_eq!(prediction.confidence, "unverified");
    assert!(prediction.extrapolated);
    assert_eq!(prediction.output_shape, [200, 200, 200]);
}

#[test]
fn line_buffers_stay_bounded() {
    let law = law_of(&small_shapes(), gaussian);
    for shape in [[200, 200, 200], [64, 500, 1501], [480, 480, 480]] {
        let truth = true_peak(&shape, &gaussian(&shape));
        let prediction = predict(&law, &shape).unwrap();
        let error = prediction.peak_bytes.abs_diff(truth);
        assert!(error <= truth / 500, "{shape:?}: {} for {truth}", prediction.peak_bytes);
        assert!(prediction.upper_bytes >= truth, "{shape:?}: {} for {truth}", prediction.upper_bytes);
    }
}

#[test]
fn a_far_run_that_agrees_makes_a_law_exact() {
    let mut shapes = small_shapes();
    shapes.push(vec![121, 117, 119]);
    let law = law_of(&shapes, gst3d);
    assert!(
        matches!(&law.proof, Proof::Exact { shape, error } if *shape == [121, 117, 119] && *error <= 0.001)
    );
    assert_eq!(law.trained_on.len(), 4);
    assert_eq!(predict(&law, &[300, 200, 400]).unwrap().confidence, "exact");
}

/// A buffer that appears only in large arrays: small runs cannot know, the far run shows it.
#[test]
fn a_far_run_that_disagrees_is_learnt_from_and_nothing_is_called_exact() {
    let blocked = |shape: &[u64]| {
        let volume: u64 = shape.iter().product();
        let length = if volume < 500_000 { 4 * volume } else { 8 * volume };
        vec![(0, 4 * volume), (1, length), (1, 0)]
    };
    let mut shapes = small_shapes();
    shapes.push(vec![121, 117, 119]);
    let law = law_of(&shapes, blocked);
    assert_eq!(law.trained_on.len(), 5);
    assert!(!matches!(law.proof, Proof::Exact { .. } | Proof::WorstCase { .. }), "{}", law.proof);
    assert!(law.notes.iter().any(|note| note.contains("121×117×119")), "{:?}", law.notes);
}

#[test]
fn data_dependent_counts_fall_back_to_a_regression_that_says_so() {
    let tiles = |shape: &[u64]| {
        let volume: u64 = shape.iter().product();
        let mut script: Script = vec![(0, 8 * volume)];
        // Blocks that stay, as many as the data needs.
        script.extend((0..5 + volume as usize % 7).map(|tile| (tile + 1, 300_000)));
        script
    };
    let law = law_of(&small_shapes(), tiles);
    assert!(matches!(law.body, Body::Regression(_)));
    let inside = predict(&law, &[50, 50, 50]).unwrap();
    // Nineteen runs would calibrate a bound.
    assert_eq!(inside.confidence, "unverified");
    assert!(inside.upper_bytes > inside.peak_bytes);
    assert_eq!(predict(&law, &[200, 200, 200]).unwrap().confidence, "unverified");
}

#[test]
fn a_product_of_matrices_has_three_dimensions() {
    let shapes = [[400u64, 301, 257], [523, 307, 419], [611, 503, 280], [409, 701, 607]];
    let runs = shapes.map(|[rows, inner, columns]| {
        let mut run = run("matmul", &[rows, inner], &vec![(0, 4 * rows * columns)], 100);
        let first = run.span.inputs[0].clone();
        let (shape, bytes) = (vec![inner, columns], 4 * inner * columns);
        run.span.inputs = [first.clone(), ArrayInfo { shape, bytes, ..first }].into();
        Arc::make_mut(&mut run.span.outputs)[0].shape = vec![rows, columns];
        run
    });
    let model = fit_profiles(&profile(runs.to_vec())).unwrap();
    let law = &model.laws[0];
    assert_eq!(law.names(), ["n0", "n1", "m1_1"]);
    let prediction = predict(law, &[5000, 7, 3000]).unwrap();
    assert_eq!(prediction.peak_bytes, 4 * 5000 * 3000 + 100);
    assert_eq!(prediction.input_bytes, 4 * (5000 * 7 + 7 * 3000));
    assert_eq!(prediction.output_shape, [5000, 3000]);
}

#[test]
fn calls_that_failed_answer_only_who_asks_for_them() {
    let fine = |s: &Vec<u64>| run("op", s, &vec![(0, 4 * s.iter().product::<u64>())], 0);
    let failed = |s: &Vec<u64>| {
        let mut run = run("op", s, &vec![(0, 9 * s.iter().product::<u64>())], 0);
        Arc::make_mut(&mut run.span.params).insert("error".into(), "exception".into());
        run
    };
    let shapes = small_shapes();
    let both = profile(shapes.iter().map(fine).chain(shapes.iter().map(failed)).collect());
    let model = fit_profiles(&both).unwrap();
    let bytes = |law: &memtrace_analysis::Law| law.bytes(&[10, 10, 10]).unwrap().working;
    assert_eq!(bytes(model.select("op", None, &Default::default()).unwrap()), 4000);
    let failures = [("error".to_owned(), "exception".into())].into();
    assert_eq!(bytes(model.select("op", None, &failures).unwrap()), 9000);
    let single = fit_profiles(&profile(shapes.iter().map(failed).collect())).unwrap();
    assert_eq!(bytes(single.select("op", None, &Default::default()).unwrap()), 9000);
}

#[test]
fn parameters_make_laws_apart_unless_they_follow_the_shape() {
    let with = |shape: &[u64], name: &str, value: u64, factor: u64| {
        let mut run = run("op", shape, &vec![(0, factor * shape.iter().product::<u64>())], 0);
        Arc::make_mut(&mut run.span.params).insert(name.into(), value.into());
        run
    };
    let runs = small_shapes().iter().flat_map(|s| [with(s, "sigma", 3, 4), with(s, "sigma", 5, 8)]).collect();
    let model = fit_profiles(&profile(runs)).unwrap();
    assert_eq!(model.laws.len(), 2);
    let several = model.select("op", None, &Default::default()).unwrap_err().to_string();
    assert!(several.contains("sigma=3") && several.contains("sigma=5"), "{several}");
    let wanted = [("sigma".to_owned(), "5".into())].into();
    let law = model.select("op", Some("f4"), &wanted).unwrap();
    let with_layout =
        |layout: &str| [("sigma".to_owned(), 5.into()), ("layout".to_owned(), layout.into())].into();
    assert!(model.select("op", None, &with_layout("C")).is_ok());
    assert!(model.select("op", None, &with_layout("F")).is_err());
    assert_eq!(law.bytes(&[100, 100, 100]).unwrap().working, 8_000_000);
    let unknown = model.select("other", None, &Default::default()).unwrap_err().to_string();
    assert!(unknown.contains("op"), "{unknown}");

    let runs = small_shapes().iter().map(|shape| with(shape, "length", shape[0], 4)).collect();
    let model = fit_profiles(&profile(runs)).unwrap();
    assert_eq!(model.laws.len(), 1);
    assert!(model.laws[0].notes.iter().any(|note| note.contains("length")));
}

#[test]
fn too_few_shapes_are_refused_with_a_reason() {
    let runs = small_shapes()[..2].iter().map(|shape| run("op", shape, &gst3d(shape), 0)).collect();
    let error = fit_profiles(&profile(runs)).unwrap_err().to_string();
    assert!(error.contains("op was run at 2 shapes"), "{error}");
    assert!(fit_profiles(&[]).is_err());
}

/// A block of a synthetic operator: which axes it spans, trimmed or padded by how much.
#[derive(Debug, Clone)]
struct Polynomial {
    coefficient: u64,
    axes: [Option<i64>; 3],
}

impl Polynomial {
    fn bytes(&self, shape: &[u64]) -> u64 {
        let length = |(offset, &n): (&Option<i64>, &u64)| {
            offset.map_or(1, |offset| n.checked_add_signed(offset).unwrap())
        };
        self.coefficient * self.axes.iter().zip(shape).map(length).product::<u64>()
    }
}

fn polynomial() -> impl Strategy<Value = Polynomial> {
    let offset = prop_oneof![Just(0i64), Just(-2), -8..=24i64];
    // Two axes at least: a single trimmed line is smaller than any threshold.
    let axes = (
        proptest::option::weighted(0.8, offset.clone()),
        offset.clone().prop_map(Some),
        offset.prop_map(Some),
    );
    (prop_oneof![Just(4u64), Just(8), Just(24), Just(72)], axes)
        .prop_map(|(coefficient, (a, b, c))| Polynomial { coefficient, axes: [a, b, c] })
}

/// Blocks by number, and after each allocation which earlier block (if any) is released.
fn operator() -> impl Strategy<Value = Vec<(Polynomial, Option<prop::sample::Index>)>> {
    prop::collection::vec((polynomial(), proptest::option::of(any::<prop::sample::Index>())), 1..12)
}

fn script(steps: &[(Polynomial, Option<prop::sample::Index>)], shape: &[u64]) -> Script {
    let mut script = Script::new();
    for (block, (size, released)) in steps.iter().enumerate() {
        script.push((block, size.bytes(shape)));
        script.extend(released.map(|index| (index.index(block + 1), 0)));
    }
    script
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the polynomials, the law gives the peak of volumes 8 to 1000 times larger, also
    /// where another step sets it there.
    #[test]
    fn laws_of_polynomial_programs_are_exact_far_outside(steps in operator(), scale in 2.0f64..10.0) {
        let law = law_of(&small_shapes(), |shape| script(&steps, shape));
        let shape: Vec<u64> = [58.0, 59.0, 55.0].iter().map(|n| (n * scale) as u64).collect();
        let truth = true_peak(&shape, &script(&steps, &shape));
        let predicted = law.bytes(&shape).unwrap();
        prop_assert_eq!(predicted.working, truth);
        prop_assert!(predicted.working_upper >= truth);
    }

    /// No shape, however absurd, is more than an error.
    #[test]
    fn absurd_shapes_are_errors(shape in prop::collection::vec(any::<u64>(), 0..6)) {
        static LAW: std::sync::LazyLock<Law> = std::sync::LazyLock::new(|| law_of(&small_shapes(), gaussian));
        if let Ok(prediction) = predict(&LAW, &shape) {
            prop_assert!(prediction.upper_bytes >= prediction.peak_bytes);
        }
    }
}

/// NumPy casts in pieces: a buffer of 8·n0·n1 bytes that stops growing at 64 KiB.
#[test]
fn a_buffer_that_stops_growing_is_capped_by_the_far_run() {
    let casting = |shape: &[u64]| {
        let plane: u64 = 8 * shape[0] * shape[1];
        vec![(0, 4 * shape.iter().product::<u64>()), (1, plane.min(65_536)), (1, 0)]
    };
    let mut shapes = small_shapes();
    assert!(shapes.iter().all(|shape| 8 * shape[0] * shape[1] < 65_536));
    shapes.push(vec![121, 117, 119]);
    let law = law_of(&shapes, casting);
    assert!(matches!(law.proof, Proof::Exact { .. }), "{}", law.proof);
    for shape in [[200, 300, 250], [60, 70, 110]] {
        assert_eq!(predict(&law, &shape).unwrap().peak_bytes, true_peak(&shape, &casting(&shape)));
    }
}

/// OpenBLAS takes 512 KiB for larger matrices only: no part of the sequence, yet counted.
#[test]
fn a_workspace_that_some_shapes_need_is_that_of_the_nearest() {
    const WORKSPACE: u64 = 524_288;
    let product = |shape: &[u64]| {
        let mut script: Script = vec![(0, 8 * shape.iter().product::<u64>())];
        if shape[0] > 45 {
            script.extend([(1, WORKSPACE), (1, 0)]);
        }
        script
    };
    let of_shape = |shape: &Vec<u64>| {
        let mut run = run("op", shape, &product(shape), 700);
        run.program.blocks.iter_mut().skip(1).for_each(|block| block.site = Some(7));
        run
    };
    let law = fit_profiles(&profile(small_shapes().iter().map(of_shape).collect())).unwrap().laws.remove(0);
    assert!(matches!(law.body, Body::Symbolic(_)), "{:?}", law.notes);
    for shape in [[300, 310, 290], [37, 40, 42]] {
        let said = predict(&law, &shape).unwrap();
        assert_eq!(said.peak_bytes, true_peak(&shape, &product(&shape)), "{shape:?}");
        assert!(said.upper_bytes >= 8 * shape.iter().product::<u64>() + WORKSPACE);
    }
}

#[test]
fn a_proof_reaches_no_further_than_runs_show() {
    let mut shapes = small_shapes();
    shapes.push(vec![121, 117, 119]);
    let mut law = law_of(&shapes, gst3d);
    let says = |law: &Law, shape: [u64; 3]| predict(law, &shape).unwrap().confidence;
    assert_eq!(says(&law, [300, 310, 290]), "exact");
    assert_eq!(says(&law, [3, 700, 700]), "unverified", "thin");
    assert_eq!(says(&law, [30, 31, 32]), "unverified", "smaller than any run");
    assert_eq!(says(&law, [100, 100, 900]), "unverified", "far longer in one direction");
    law.choices = vec!["oaconvolve chooses its blocks by the lengths".into()];
    assert_eq!(says(&law, [110, 110, 110]), "exact");
    assert_eq!(says(&law, [300, 310, 290]), "unverified", "beyond what was verified");
}
