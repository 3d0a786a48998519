//! Small programs with known peaks.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn library() -> Library {
    let cost = |per_input: f64, per_output: f64, output: &str| json!({"outputs": [output], "per_input": per_input, "per_output": per_output, "constant": 0.0});
    let functions = json!({
        "numpy.sqrt": {"rule": "broadcast", "parameters": ["x1", "out"], "costs": {"<f4": cost(0.0, 4.0, "<f4")}},
        "numpy.zeros": {"rule": "filled", "parameters": ["shape", "dtype"], "costs": {"<f8": cost(0.0, 8.0, "<f8")}},
        "numpy.append": {"rule": "append", "parameters": ["arr", "values", "axis"], "costs": {"<f4": cost(0.0, 4.0, "<f4")}},
        "numpy.mean": {"rule": "reduce", "parameters": ["a", "axis"], "costs": {"<f4": cost(0.0, 4.0, "<f4")}},
        "scipy.stats.zmap": {"rule": "like", "parameters": ["a", "ddof", "axis"], "measured": ["a", "axis"],
                             "costs": {"<f4": cost(4.0, 4.0, "<f4")}},
        "scipy.ndimage.filter": {"rule": "like", "parameters": ["input", "weights", "output"],
                                 "costs": {"<f4": cost(2.0, 4.0, "<f4"), "<f8": cost(6.0, 8.0, "<f8")}},
    });
    let text = json!({"library_version": 2, "versions": {}, "functions": functions,
        "unknown": {"factor": 5.0, "quantile": 0.9}, "residual": {"factor": 1.1, "operators": 3}});
    Library::parse(&text.to_string()).unwrap()
}

fn source(body: serde_json::Value) -> Source {
    let entry = json!({"file": "a.py", "parameters": [{"name": "x"}], "body": body});
    let helper = json!({"file": "a.py", "parameters": [{"name": "x"}],
        "body": [{"line": 20, "return": call("numpy.sqrt", json!([name("x")]))}]});
    let text = json!({"source_version": 1, "language": "python", "entry": "a:f",
        "functions": {"a:f": entry, "a:helper": helper}});
    Source::parse(&text.to_string()).unwrap()
}

fn name(name: &str) -> serde_json::Value {
    json!({ "name": name })
}

fn call(function: &str, args: serde_json::Value) -> serde_json::Value {
    json!({"call": {"function": {"function": function}, "args": args, "line": 7}})
}

fn operate(operator: &str, args: serde_json::Value) -> serde_json::Value {
    json!({"operate": {"operator": operator, "args": args, "line": 8}})
}

fn set(target: &str, value: serde_json::Value) -> serde_json::Value {
    json!({"line": 3, "assign": {"targets": [name(target)], "value": value}})
}

fn bounded_of(body: serde_json::Value, shape: &[u64]) -> Bounded {
    let inputs = Inputs {
        shapes: vec![shape.to_vec()],
        dtypes: vec![Dtype::parse("f4").unwrap()],
        layout: "C".to_owned(),
        params: BTreeMap::new(),
    };
    bound(&source(body), &library(), &inputs).unwrap()
}

const SHAPE: [u64; 3] = [100, 100, 100];
const BYTES: u64 = 4_000_000;

#[test]
fn names_hold_what_they_are_given_until_they_get_something_else() {
    let sqrt = || call("numpy.sqrt", json!([name("x")]));
    // Two names, two blocks; the same name again: the new one is made before the old one goes.
    let two = bounded_of(json!([set("a", sqrt()), set("b", sqrt()), {"return": name("b")}]), &SHAPE);
    assert_eq!(two.peak_bytes, 2 * BYTES);
    let again = bounded_of(json!([set("a", sqrt()), set("a", sqrt()), set("a", sqrt())]), &SHAPE);
    assert_eq!(again.peak_bytes, 2 * BYTES);
    let released = bounded_of(json!([set("a", sqrt()), {"release": ["a"]}, set("b", sqrt())]), &SHAPE);
    assert_eq!(released.peak_bytes, BYTES);
    assert_eq!(two.output_shape, SHAPE);
    assert_eq!(two.output_dtype, "<f4");
    assert_eq!(two.model.terms[0].words, "numpy.sqrt, a.py:7");
    assert_eq!(
        (two.upper_bytes, two.confidence),
        (Some((two.peak_bytes as f64 * 1.1).ceil() as u64), "unverified")
    );
}

#[test]
fn functions_that_were_measured_by_default_are_known_by_default_only() {
    let with = |keywords: serde_json::Value| {
        let call = json!({"call": {"function": {"function": "scipy.stats.zmap"}, "args": [name("x")],
            "keywords": keywords, "line": 7}});
        bounded_of(json!([{ "return": call }]), &SHAPE)
    };
    let default = with(json!([]));
    assert!(default.upper_bytes.is_some());
    let last = with(json!([["axis", {"value": 2}]]));
    assert_eq!((last.peak_bytes, last.upper_bytes), (default.peak_bytes, default.upper_bytes));
    let other = with(json!([["ddof", {"value": 2}]]));
    assert_eq!(other.upper_bytes, None);
    assert_eq!(other.model.unknown, ["arguments of scipy.stats.zmap (a.py:7)"]);
    let several =
        json!([{"return": call("scipy.stats.zmap", json!([{"sequence": [name("x"), name("x")]}]))}]);
    assert_eq!(bounded_of(several, &SHAPE).upper_bytes, None);
}

#[test]
fn views_keep_what_they_look_at() {
    let part =
        json!({"item": {"of": call("numpy.sqrt", json!([name("x")])), "index": [{"value": 0}], "line": 4}});
    let body = json!([set("a", part), set("b", call("numpy.sqrt", json!([name("x")])))]);
    assert_eq!(bounded_of(body, &SHAPE).peak_bytes, 2 * BYTES);
}

#[test]
fn temporaries_are_reused_when_they_are_large() {
    // √x + x·x: the sum is written over one of its operands.
    let squares = operate("*", json!([name("x"), name("x")]));
    let sum = operate("+", json!([call("numpy.sqrt", json!([name("x")])), squares]));
    let body = json!([{"return": sum}]);
    assert_eq!(bounded_of(body.clone(), &SHAPE).peak_bytes, 2 * BYTES);
    assert_eq!(bounded_of(body, &[10, 10, 10]).peak_bytes, 3 * 4000);
}

#[test]
fn locals_of_a_called_function_go_when_it_returns() {
    let body = json!([
        set("a", call("a:helper", json!([name("x")]))),
        set("b", call("a:helper", json!([name("x")])))
    ]);
    let both = bounded_of(body, &SHAPE);
    assert_eq!(both.peak_bytes, 2 * BYTES);
}

#[test]
fn what_a_library_needs_for_a_moment_counts() {
    let filtered = bounded_of(json!([{"return": call("scipy.ndimage.filter", json!([name("x")]))}]), &SHAPE);
    assert_eq!(filtered.peak_bytes, 6_000_000);
    assert_eq!(filtered.output_bytes, BYTES);
}

#[test]
fn loops_count_once_unless_they_keep() {
    let over = |count: u64| call("builtins.range", json!([{ "value": count }]));
    let plain = json!({"line": 5, "for": {"target": name("i"), "over": over(500), "body": [
        set("a", call("numpy.sqrt", json!([name("x")])))]}});
    assert_eq!(bounded_of(json!([plain]), &SHAPE).peak_bytes, 2 * BYTES);
    let append = json!({"call": {"function": {"attribute": {"of": name("all"), "name": "append"}},
        "args": [call("numpy.sqrt", json!([name("x")]))], "line": 6}});
    let keeps =
        json!({"line": 5, "for": {"target": name("i"), "over": over(500), "body": [{"evaluate": append}]}});
    let kept = bounded_of(json!([set("all", json!({"sequence": []})), keeps]), &SHAPE);
    assert_eq!(kept.peak_bytes, 500 * BYTES);
    let each = json!({"each": {"item": call("numpy.sqrt", json!([name("x")])), "target": name("i"), "over": over(700)}});
    assert_eq!(bounded_of(json!([set("all", each)]), &SHAPE).peak_bytes, 700 * BYTES);
}

#[test]
fn undecided_conditions_are_taken_both_ways() {
    let test = operate(">", json!([call("numpy.mean", json!([name("x")])), {"value": 0.0}]));
    let sqrt = || call("numpy.sqrt", json!([name("x")]));
    let body = json!([
        {"line": 4, "if": {"test": test, "then": [set("a", sqrt())],
                           "otherwise": [set("a", sqrt()), set("b", sqrt()), set("c", sqrt())]}},
        {"return": name("a")}
    ]);
    let answer = bounded_of(body, &SHAPE);
    assert_eq!((answer.model.paths, answer.model.control.undecided), (2, 1));
    assert!(answer.peak_bytes >= 3 * BYTES && answer.peak_bytes < 3 * BYTES + 100);
}

#[test]
fn what_shapes_decide_is_decided() {
    let ndim = json!({"attribute": {"of": name("x"), "name": "ndim"}});
    let test = operate("!=", json!([ndim, {"value": 3}]));
    let body = json!([{"line": 4, "if": {"test": test, "then": [{"leave": "raise"}]}},
                      {"return": call("numpy.sqrt", json!([name("x")]))}]);
    let answer = bounded_of(body, &SHAPE);
    assert_eq!((answer.model.paths, answer.peak_bytes), (1, BYTES));
}

#[test]
fn unknown_calls_are_said() {
    let answer = bounded_of(json!([{"return": call("elsewhere.magic", json!([name("x")]))}]), &SHAPE);
    assert_eq!(answer.peak_bytes, 5 * BYTES);
    assert_eq!(answer.model.unknown, ["elsewhere.magic (a.py:7)"]);
    assert_eq!(answer.upper_bytes, None);
}

/// `of.name(args)`
fn method(of: serde_json::Value, called: &str, args: serde_json::Value) -> serde_json::Value {
    json!({"call": {"function": {"attribute": {"of": of, "name": called}}, "args": args, "line": 7}})
}

#[test]
fn no_call_is_left_out_in_silence() {
    let unknown = |body| bounded_of(body, &SHAPE).model.unknown;
    let number = json!([{"value": 3}]);
    assert_eq!(
        unknown(json!([set("a", call("elsewhere.table", number.clone()))])),
        ["elsewhere.table (a.py:7)"]
    );
    assert_eq!(unknown(json!([set("a", call("math.log", number))])), [] as [&str; 0]);
    let text = json!([
        set("a", call("elsewhere.writer", json!([]))),
        {"evaluate": method(name("a"), "write", json!([name("x")]))}
    ]);
    assert_eq!(unknown(text), ["elsewhere.writer (a.py:7)", "method write (a.py:7)"]);
    assert_eq!(unknown(json!([{"return": name("nowhere")}])), ["the value of nowhere (a.py)"]);
    let joined = method(json!({"value": ","}), "join", json!([method(name("x"), "tolist", json!([]))]));
    assert_eq!(unknown(json!([set("a", joined)])), ["text that join makes (a.py:7)"]);
    let short =
        method(json!({"value": ","}), "join", json!([{"sequence": [{"value": "a"}, {"value": "b"}]}]));
    assert_eq!(unknown(json!([set("a", short)])), [] as [&str; 0]);
}

#[test]
fn several_types_cost_what_the_dearest_does() {
    // Single precision with weights of double precision: as measured for the latter.
    let weights = call("numpy.zeros", json!([{"value": 10}]));
    let body =
        json!([set("a", weights), {"return": call("scipy.ndimage.filter", json!([name("x"), name("a")]))}]);
    assert_eq!(bounded_of(body, &SHAPE).peak_bytes, 80 + 14_000_000);
}

#[test]
fn another_kind_than_was_measured_is_named() {
    let body = json!([set("a", call("numpy.zeros", json!([{"value": 100}, {"dtype": "<c16"}]))),
                      {"return": call("scipy.ndimage.filter", json!([name("a")]))}]);
    assert_eq!(bounded_of(body, &SHAPE).model.unknown, ["scipy.ndimage.filter of <c16 (a.py:7)"]);
}

#[test]
fn numbers_as_objects_count() {
    let body = json!([set("a", method(name("x"), "tolist", json!([]))), set("b", name("a"))]);
    let answer = bounded_of(body, &[1000, 500]);
    assert_eq!(answer.peak_bytes, 1000 * 500 * 40 + 1000 * 64);
    assert!(answer.upper_bytes.is_some());
}

#[test]
fn what_a_loop_keeps_is_counted_or_named() {
    let looped = |body| {
        let over = call("builtins.range", json!([{"value": 500}]));
        let over = json!({"line": 5, "for": {"target": name("i"), "over": over, "body": [body]}});
        let start = call("numpy.sqrt", json!([name("x")]));
        bounded_of(json!([set("all", json!({"mapping": []})), set("a", start), over]), &[100, 50])
    };
    let sqrt = || call("numpy.sqrt", json!([name("x")]));
    let entry = json!({"item": {"of": name("all"), "index": [name("i")], "line": 6}});
    let entries = looped(json!({"line": 6, "assign": {"targets": [entry], "value": sqrt()}}));
    assert_eq!((entries.peak_bytes, entries.model.unknown.len()), (501 * 20_000, 0));
    let grown = looped(set("a", call("numpy.append", json!([name("a"), name("x")]))));
    assert_eq!(grown.model.unknown, ["what a loop keeps (a.py:5)"]);
    let replaced = looped(set("a", sqrt()));
    assert_eq!((replaced.peak_bytes, replaced.model.unknown.len()), (2 * 20_000, 0));
}

#[test]
fn what_is_no_description_is_refused() {
    assert!(Source::parse("{}").is_err());
    assert!(Source::parse(r#"{"source_version": 99}"#).unwrap_err().to_string().contains("update memtrace"));
    let missing = r#"{"source_version": 1, "language": "python", "entry": "f", "functions": {}}"#;
    assert!(Source::parse(missing).is_err());
}

#[test]
fn the_shipped_library_can_be_read() {
    let text = include_str!("library.json");
    assert!(Library::parse(text).unwrap().functions.len() > 200);
}

fn expression() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        prop_oneof!["x", "a", "b"].prop_map(|variable: String| name(&variable)),
        any::<i64>().prop_map(|value| json!({ "value": value })),
        (-4i64..4).prop_map(|value| json!({ "value": value })),
        Just(json!({"value": null})),
        Just(json!("rest")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let function = prop_oneof![
            Just("numpy.sqrt"),
            Just("numpy.zeros"),
            Just("numpy.mean"),
            Just("numpy.reshape"),
            Just("numpy.moveaxis"),
            Just("builtins.range"),
            Just("builtins.zip"),
            Just("a:helper"),
            Just("a:f"),
            Just("numpy.sliding_window_view"),
            Just("numpy.split"),
            Just("numpy.astype"),
            Just("who.knows")
        ];
        prop_oneof![
            (function, prop::collection::vec(inner.clone(), 0..3)).prop_map(|(f, args)| call(f, json!(args))),
            (
                prop_oneof!["[+*/<%]", Just("//".to_owned()), Just("**".to_owned())],
                inner.clone(),
                inner.clone()
            )
                .prop_map(|(operator, a, b)| operate(&operator, json!([a, b]))),
            (inner.clone(), prop::collection::vec(inner.clone(), 0..4))
                .prop_map(|(of, index)| json!({"item": {"of": of, "index": index}})),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| json!({ "sequence": items })),
            (inner.clone(), inner.clone()).prop_map(|(start, stop)| json!({"slice": [start, stop, null]})),
            (inner.clone(), inner)
                .prop_map(|(item, over)| json!({"each": {"item": item, "target": name("b"), "over": over}})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_program_has_a_bound_or_an_error(
        values in prop::collection::vec(expression(), 1..6),
        shape in prop::collection::vec(1u64..50, 0..4),
    ) {
        let body: Vec<serde_json::Value> =
            values.into_iter().map(|value| set("a", value)).chain([json!({"return": name("a")})]).collect();
        let inputs = Inputs {
            shapes: vec![shape],
            dtypes: vec![Dtype::DOUBLE],
            layout: "strided".to_owned(),
            params: BTreeMap::new(),
        };
        if let Ok(answer) = bound(&source(json!(body)), &library(), &inputs) {
            prop_assert!(answer.upper_bytes.is_none_or(|upper| upper >= answer.peak_bytes));
            prop_assert_eq!(answer.upper_bytes.is_some(), answer.model.unknown.is_empty());
        }
    }
}

fn range(count: u64) -> serde_json::Value {
    call("builtins.range", json!([{ "value": count }]))
}

fn each(item: serde_json::Value) -> serde_json::Value {
    json!({"each": {"item": item, "target": name("i"), "over": range(60_000), "when": []}})
}

fn repeat(body: serde_json::Value) -> serde_json::Value {
    json!({"line": 4, "for": {"target": name("i"), "over": range(1000), "body": body}})
}

/// A few hundred bytes that describe gigabytes of lists, or hours of work.
#[test]
fn a_walk_ends_soon_whatever_lists_grow() {
    let pair = set("u", json!({"sequence": [name("x"), name("x")]}));
    let grown = |operator: &str, by: serde_json::Value| {
        let grow = set("u", operate(operator, json!([name("u"), by])));
        let mut body = vec![grow; 40];
        body.insert(0, pair.clone());
        json!(body)
    };
    let append = json!({"call": {"function": {"attribute": {"of": name("u"), "name": "append"}},
        "args": [name("u")], "line": 7}});
    let cyclic = json!([pair, repeat(json!([{"line": 5, "evaluate": append}]))]);
    let tests = (0..8).map(|axis| {
        let item = json!({"item": {"of": name("x"), "index": [{"value": axis}], "line": 9}});
        let more = set("u", operate("+", json!([name("u"), {"sequence": [name("x")]}])));
        json!({"line": 10 + axis, "if": {"test": operate(">", json!([item, {"value": 0}])),
            "then": [more], "otherwise": []}})
    });
    let paths = json!([pair, repeat(json!([repeat(tests.collect())]))]);
    let nested =
        json!([{"line": 3, "return": each(each(each(operate("+", json!([name("x"), name("i")])))))}]);
    for body in [grown("+", name("u")), grown("*", json!({"value": 4000})), nested, paths] {
        let unknown = bounded_of(body, &SHAPE).model.unknown;
        assert!(
            unknown.iter().any(|what| what.starts_with("what comes after very many steps")),
            "{unknown:?}"
        );
    }
    bounded_of(cyclic, &SHAPE);
}

/// Tens of thousands of containers in one another, on the small stack of a test's thread.
#[test]
fn a_container_may_be_very_deep() {
    let start = set("u", json!({"sequence": [call("numpy.sqrt", json!([name("x")]))]}));
    let attribute = json!({"attribute": {"of": name("u"), "name": "a"}});
    let ways = [
        json!({"sequence": [name("u")]}),
        json!({"mapping": [[{"value": 1}, name("u")]]}),
        json!({"sequence": [attribute.clone()]}),
        attribute,
    ];
    for deeper in ways {
        let body = (0..3).fold(
            json!([set("u", deeper)]),
            |body, _| json!([{"line": 4, "for": {"target": name("i"), "over": range(60), "body": body}}]),
        );
        let found = bounded_of(json!([start, body[0], {"line": 9, "return": name("u")}]), &SHAPE);
        assert!(found.peak_bytes >= BYTES, "{}", found.peak_bytes);
    }
}

/// Lists whose items are the same list twice describe 2⁴⁰ numbers, one that contains itself more.
#[test]
fn arrays_of_lists_end_soon() {
    let doubled = vec![set("u", json!({"sequence": [name("u"), name("u")]})); 40];
    let append = json!({"call": {"function": {"attribute": {"of": name("u"), "name": "append"}},
        "args": [name("u")], "line": 7}});
    let cyclic = vec![json!({"line": 5, "evaluate": append})];
    let again = vec![set("v", name("u")), set("u", json!({"sequence": [name("x")]}))];
    let ends = [
        set("w", call("numpy.array", json!([name("u")]))),
        set("w", operate("==", json!([name("u"), name("v")]))),
    ];
    for grown in [doubled.clone(), cyclic] {
        for end in &ends {
            let body = [
                vec![set("u", json!({"sequence": [name("x")]}))],
                grown.clone(),
                again.clone(),
                grown.clone(),
                vec![end.clone(), json!({"line": 9, "return": name("w")})],
            ];
            bounded_of(json!(body.concat()), &SHAPE);
        }
    }
}
