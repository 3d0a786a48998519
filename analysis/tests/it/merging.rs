//! Merging models, and which law of a model answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{profile, run, small_shapes};
use memtrace_analysis::fit::fit_profiles;
use memtrace_analysis::model::Proof;
use memtrace_analysis::profile::provenance::Source;
use memtrace_analysis::{Error, Model, Query};
use serde_json::json;

/// A law of `per_element` bytes, from runs of these shapes with this release of NumPy.
fn model(shapes: &[Vec<u64>], per_element: u64, numpy: &str, layout: &str) -> Model {
    let one = |shape: &Vec<u64>| {
        let volume: u64 = shape.iter().product();
        let mut run = run("pack:op", shape, &vec![(0, per_element * volume), (0, 0)], 700);
        Arc::make_mut(&mut run.span.params)
            .insert("versions".into(), json!({ "numpy": numpy, "python": "3.11.7" }));
        Arc::make_mut(&mut run.span.inputs)[0].layout = layout.into();
        run
    };
    let mut model = fit_profiles(&profile(shapes.iter().map(one).collect())).unwrap();
    model.sources.push(Source { sha256: format!("{shapes:?} {numpy} {layout}"), ..Source::default() });
    model
}

fn proved() -> Vec<Vec<u64>> {
    [small_shapes(), vec![vec![121, 117, 119]]].concat()
}

fn later_shapes() -> Vec<Vec<u64>> {
    vec![vec![40, 43, 47], vec![51, 50, 53], vec![61, 59, 58]]
}

#[test]
fn laws_of_other_keys_stand_side_by_side_and_versions_choose() {
    let merged = model(&small_shapes(), 4, "2.4.6", "C").merge(&model(&small_shapes(), 8, "1.26.4", "C"));
    assert_eq!((merged.laws.len(), merged.sources.len()), (2, 2));
    let running = |numpy: &str| BTreeMap::from([("numpy".to_owned(), numpy.to_owned())]);
    let query = |numpy: &str| Query { operator: "op", libraries: running(numpy), ..Query::default() };
    // Another repair release of the same series is the same.
    let law = merged.find(&query("1.26.0")).unwrap();
    assert_eq!(law.bytes(&[100, 100, 100]).unwrap().working, 8_000_700);
    let refused = merged.find(&query("2.0.1")).unwrap_err();
    assert!(matches!(refused, Error::OtherVersions(_)), "{refused}");
    for part in ["numpy 2.4.6, not 2.0.1", "numpy 1.26.4", "any_version=True"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    // By name it must agree as far as it is given; one law answers for any version if that is
    // wanted.
    let named = |numpy: &str, any_version: bool| {
        let params = BTreeMap::from([("numpy".to_owned(), json!(numpy))]);
        Query { operator: "op", params, any_version, ..Query::default() }
    };
    assert!(merged.find(&named("2", false)).is_ok());
    assert!(merged.find(&named("2.4.7", false)).is_err());
    let single = model(&small_shapes(), 4, "2.4.6", "C");
    assert!(single.find(&named("2.4.7", false)).is_err());
    assert!(single.find(&named("2.4.7", true)).is_ok());
}

#[test]
fn other_dtypes_layouts_devices_and_parameters_are_refused_by_name() {
    let single = model(&small_shapes(), 4, "2.4.6", "C");
    let refusal = |dtype: Option<&str>, name: &str, value: serde_json::Value| {
        let params = BTreeMap::from([(name.to_owned(), value)]);
        single.find(&Query { operator: "op", dtype, params, any_version: true, ..Query::default() })
    };
    for (dtype, name, value, said) in [
        (Some(">f4"), "layout", json!("C"), "with dtype >f4, but with <f4"),
        (None, "layout", json!("F"), "with layout F, but with C"),
        (None, "device", json!("cuda"), "with device cuda, but with cpu"),
        (None, "sigma", json!(3), "it knows no sigma"),
        (None, "threads", json!(2), "it knows no threads"),
    ] {
        let refused = refusal(dtype, name, value).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
    assert!(refusal(Some("f4"), "device", json!("cpu")).is_ok());
}

#[test]
fn runs_of_one_law_are_pooled_and_the_better_proof_stays() {
    let (unproved, exact) = (model(&later_shapes(), 4, "2.4.6", "C"), model(&proved(), 4, "2.4.6", "C"));
    assert!(matches!(exact.laws[0].proof, Proof::Exact { .. }));
    for (one, other) in [(&unproved, &exact), (&exact, &unproved)] {
        let merged = one.merge(other);
        assert_eq!(merged.laws.len(), 1);
        assert_eq!(merged.laws[0].proof, exact.laws[0].proof);
        assert_eq!(merged.laws[0].trained_on.len(), 4 + 3);
        assert!(
            merged.notes.last().unwrap().contains("7 runs of one law pooled, exact"),
            "{:?}",
            merged.notes
        );
        assert_eq!(Model::parse(&merged.to_json().unwrap()).unwrap(), merged);
    }
    // Merging twice adds nothing.
    let merged = unproved.merge(&exact);
    let again = merged.merge(&exact);
    assert_eq!((again.laws[0].trained_on.len(), again.sources.len()), (7, 2));
}

#[test]
fn forms_that_one_model_rules_out_are_out() {
    // Cubes do not distinguish the axes; other shapes do.
    let cubes: Vec<Vec<u64>> = [40, 50, 62].map(|n| vec![n; 3]).to_vec();
    let (vague, clear) = (model(&cubes, 4, "2.4.6", "C"), model(&small_shapes(), 4, "2.4.6", "C"));
    let bytes = |model: &Model| model.laws[0].bytes(&[90, 100, 200]).unwrap();
    assert!(bytes(&vague).working_upper > bytes(&clear).working_upper);
    let merged = vague.merge(&clear);
    assert!(bytes(&merged).working_upper <= bytes(&clear).working_upper);
    assert_eq!(bytes(&merged).working, 4 * 90 * 100 * 200 + 700);
}

#[test]
fn exact_laws_that_contradict_each_other_are_exact_no_more() {
    let (a, b) = (model(&proved(), 4, "2.4.6", "C"), model(&proved(), 8, "2.4.6", "C"));
    let merged = a.merge(&b);
    assert_eq!((merged.laws.len(), &merged.laws[0].proof), (1, &Proof::Unverified));
    assert!(merged.notes.iter().any(|note| note.contains("contradict")), "{:?}", merged.notes);
}
