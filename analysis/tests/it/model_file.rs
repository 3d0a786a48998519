//! Model files: written and read back, and every kind of bad one refused.

use crate::common::{profile, run, small_shapes};
use std::sync::LazyLock;

use memtrace_analysis::fit::fit_profiles;
use memtrace_analysis::model::Proof;
use memtrace_analysis::{Error, Model, predict};
use proptest::prelude::*;

static GOOD: LazyLock<String> = LazyLock::new(|| serde_json::to_string(&model()).unwrap());

fn model() -> Model {
    of(&small_shapes())
}

/// With a verification run.
fn proved() -> Model {
    of(&[small_shapes(), vec![vec![121, 117, 119]]].concat())
}

fn of(shapes: &[Vec<u64>]) -> Model {
    let script = |shape: &[u64]| {
        let volume: u64 = shape.iter().product();
        let line = 8 * (shape[2] + 24);
        vec![(0, 4 * volume), (1, 8 * (shape[0] - 2) * shape[1]), (2, 256_000 / line * line), (1, 0), (2, 0)]
    };
    fit_profiles(&profile(shapes.iter().map(|shape| run("op", shape, &script(shape), 900)).collect()))
        .unwrap()
}

#[test]
fn what_is_saved_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.json");
    model().save(&path).unwrap();
    model().save(&path).unwrap();
    assert_eq!(Model::load(&path).unwrap(), model());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file was left");
}

/// A file that was edited is read, but what it was proved by is no proof of what it says now.
#[test]
fn a_file_that_was_changed_is_noticed() {
    let written = proved().to_json().unwrap();
    assert!(matches!(Model::parse(&written).unwrap().laws[0].proof, Proof::Exact { .. }));
    for (from, to) in
        [("\"coefficient\": 4,", "\"coefficient\": 3,"), ("\n", "\n "), ("\"sha256\"", "\"was\"")]
    {
        let edited = written.replacen(from, to, 1);
        assert_ne!(edited, written, "{from}");
        let model = Model::parse(&edited).unwrap();
        assert_eq!((&model.laws[0].proof, model.notes.len()), (&Proof::Unverified, 1), "{from}");
        assert!(model.notes[0].contains("changed"));
        // It stays so when it is saved again.
        let again = Model::parse(&model.to_json().unwrap()).unwrap();
        assert_eq!(again, model);
    }
}

#[test]
fn a_file_without_digest_and_sources_is_read_as_unverified() {
    let mut plain = serde_json::to_value(proved()).unwrap();
    plain.as_object_mut().unwrap().remove("sources");
    let model = Model::parse(&plain.to_string()).unwrap();
    assert_eq!(model.laws[0].body, proved().laws[0].body);
    assert_eq!(model.laws[0].proof, Proof::Unverified, "no digest says that it is unchanged");
    assert!(model.to_json().unwrap().contains("\"schema_version\": 3"));
}

#[test]
fn files_of_earlier_versions_are_refused_in_one_sentence() {
    for version in [0, 1, 2] {
        let mut old = serde_json::to_value(proved()).unwrap();
        old["schema_version"] = version.into();
        let refused = Model::parse(&old.to_string()).unwrap_err();
        assert!(matches!(refused, Error::Older { supported: 3, .. }), "{refused}");
        assert!(refused.to_string().ends_with("fit it again"), "{refused}");
    }
}

#[test]
fn files_that_are_no_model_are_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Model::load(folder.path().join("none.json")).unwrap_err();
    assert!(matches!(missing, Error::Io { action: "read", .. }), "{missing}");
    assert!(model().save(folder.path().join("no/such/folder.json")).is_err());
    for text in ["", "[]", "{}", "{\"schema_version\": 3}", "{\"schema_version\": -1, \"laws\": []}", "\u{0}"]
    {
        assert!(matches!(Model::parse(text), Err(Error::Malformed { .. })), "{text:?}");
    }
    let newer = Model::parse("{\"schema_version\": 99, \"shape\": \"of things to come\"}").unwrap_err();
    assert!(newer.to_string().contains("99") && newer.to_string().contains("update"), "{newer}");
    let deep = "[".repeat(100_000);
    assert!(Model::parse(&deep).is_err());
}

/// Each replacement turns a good file into one that names what it does not have.
#[test]
fn laws_that_do_not_hold_together_are_refused() {
    let good = GOOD.as_str();
    let edits = [
        ("\"variable\":2", "\"variable\":3"),
        ("\"variable\":0", "\"variable\":18446744073709551615"),
        ("\"power\":1", "\"power\":200"),
        ("\"offset\":-2", "\"offset\":-9223372036854775808"),
        ("\"steps\":[1,", "\"steps\":[99,"),
        ("\"steps\":[1,", "\"steps\":[0,"),
        ("\"steps\":[1,", "\"steps\":[-9223372036854775808,"),
        ("\"steps\":[1,", "\"steps\":[-1,"),
        ("\"rule\":\"length\"", "\"rule\":{\"hops\":0}"),
        ("\"rule\":\"length\"", "\"rule\":\"eval\""),
        ("\"per_element\":", "\"per_element\":-"),
        ("\"shape\":[38,41,43]", "\"shape\":[38]"),
    ];
    for (from, to) in edits {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from} is not in the file: the test tests nothing");
        assert!(matches!(Model::parse(&bad), Err(Error::Malformed { .. })), "{to} was accepted");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Damage anywhere gives an error or a model that can be evaluated anywhere without a panic.
    #[test]
    fn damaged_files_never_panic(position in any::<prop::sample::Index>(), byte in 0x20u8..0x7f, cut in any::<bool>()) {
        let mut text = GOOD.clone().into_bytes();
        let position = position.index(text.len());
        text[position] = byte;
        if cut {
            text.truncate(position);
        }
        let Ok(model) = Model::parse(&String::from_utf8_lossy(&text)) else { return Ok(()) };
        for law in &model.laws {
            for shape in [[1, 1, 1], [200, 300, 400], [u64::MAX; 3], [1 << 32; 3]] {
                let _ = predict(law, &shape);
            }
        }
    }
}
