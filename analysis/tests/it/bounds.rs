//! No figure of a whole is below the same figure of one of its parts, for random laws and shapes.

use memtrace_analysis::graph::{self, Executor, Graph, Libraries};
use memtrace_analysis::law::{Factor, Form, Rule, Seen, Sequence, Size};
use memtrace_analysis::model::{
    ArrayLaw, Body, Key, Law, Learned, Model, Proof, Resident, Seconds, TrainingRun, Variable, WorstCase,
};
use memtrace_analysis::plan::{Answer, Options, Workers};
use memtrace_analysis::predict;
use memtrace_analysis::profile::measured::{Baseline, OneTime};
use memtrace_analysis::stats::regression::{Monomial, Regression};
use proptest::prelude::*;

const AXES: usize = 3;

fn forms() -> impl Strategy<Value = Form> {
    let factor = |variable| {
        (-2i64..3, 0u8..2).prop_map(move |(offset, power)| Factor {
            variable,
            rule: Rule::Length,
            offset,
            power,
        })
    };
    let factors = (factor(0), factor(1), factor(2));
    (1u64..300, factors, 0u64..100_000).prop_map(|(coefficient, (a, b, c), constant)| Form {
        coefficient,
        factors: [a, b, c].into_iter().filter(|factor| factor.power > 0).collect(),
        constant: constant as i64,
    })
}

fn regressions() -> impl Strategy<Value = Regression> {
    let term = (0.0..200.0, prop::collection::vec(0u8..2, AXES)).prop_map(|(coefficient, powers)| Monomial {
        coefficient,
        powers,
        up_to: None,
    });
    (prop::collection::vec(term, 1..3), 0.0..0.5).prop_map(|(terms, error)| Regression {
        terms,
        error,
        runs: 20,
    })
}

fn sizes() -> impl Strategy<Value = Size> {
    prop_oneof![
        (forms(), prop::collection::vec(forms(), 0..2))
            .prop_map(|(form, others)| Size::Exact { form, others }),
        (forms(), 1u64..1 << 20).prop_map(|(form, cap)| Size::Capped { form, cap }),
        (0u64..1 << 24).prop_map(|bytes| Size::Bounded { bytes }),
        (forms(), 1u64..1 << 16).prop_map(|(form, block)| Size::Remainder { form, block }),
        (1u64..1 << 24, 1u64..1 << 24).prop_map(|(a, b)| Size::Nearby {
            seen: vec![Seen { shape: vec![40; AXES], bytes: a }, Seen { shape: vec![200; AXES], bytes: b }],
        }),
        regressions().prop_map(Size::Fitted),
    ]
}

/// Blocks are allocated in order; some are released at once, some at the end, some never.
fn sequences() -> impl Strategy<Value = Sequence> {
    prop::collection::vec((sizes(), 0u8..3), 1..9).prop_map(|blocks| {
        let mut steps = Vec::new();
        for (index, (_, released)) in blocks.iter().enumerate() {
            let step = index as i64 + 1;
            steps.push(step);
            steps.extend((*released == 0).then_some(-step));
        }
        let at_the_end = blocks.iter().enumerate().filter(|(_, (_, released))| *released == 1);
        steps.extend(at_the_end.map(|(index, _)| -(index as i64 + 1)));
        let sizes = blocks.into_iter().map(|(size, _)| size).collect();
        Sequence { threshold_bytes: 4096, sizes, steps, ..Sequence::default() }
    })
}

fn bodies() -> impl Strategy<Value = Body> {
    prop_oneof![3 => sequences().prop_map(Body::Symbolic), 1 => regressions().prop_map(Body::Regression)]
}

fn residents() -> impl Strategy<Value = Resident> {
    let settings = prop_oneof![
        Just(String::new()),
        Just("MALLOC_TRIM_THRESHOLD_=65536".to_owned()),
        Just("MALLOC_MMAP_MAX_=0".to_owned())
    ];
    let touched = prop_oneof![Just(1.0), 0.05..1.0];
    (settings, 0u64..200_000_000, 0u64..50_000_000, touched).prop_map(|(settings, base, more, touched)| {
        let base_upper_bytes = base + more;
        Resident { settings, base_bytes: base, base_upper_bytes, touched, shapes: 3, ..Resident::default() }
    })
}

fn worst_cases() -> impl Strategy<Value = WorstCase> {
    (bodies(), sizes(), 1.0..3.0).prop_map(|(body, residual, factor)| WorstCase { body, residual, factor })
}

/// An operator on a volume of floats which gives out another.
fn laws() -> impl Strategy<Value = Law> {
    let measured = (0u64..400_000_000, 0u64..60_000_000, prop::collection::vec(0.2..5.0f64, 0..4));
    let parts = (bodies(), sizes(), prop::option::of(worst_cases()), prop::option::of(residents()), measured);
    parts.prop_map(|(body, residual, worst, resident, (before, one_time, observed))| {
        let axis = |variable| Size::Exact { form: Form::variable(variable), others: vec![] };
        let array = || ArrayLaw {
            dtype: "<f4".into(),
            item_bytes: 4,
            shape: (0..AXES).map(axis).collect(),
            ..ArrayLaw::default()
        };
        let trained = |length: u64| TrainingRun {
            shape: vec![length; AXES],
            working_peak_bytes: 300 * length.pow(3),
            seconds: 0.1,
        };
        // A regression is of all blocks.
        let whole = matches!(body, Body::Regression(_));
        let residual = if whole { Size::Bounded { bytes: 0 } } else { residual };
        let mut law = Law {
            key: Key { operator: "m:op".into(), dtype: "<f4".into(), ..Key::default() },
            variables: (0..AXES).map(|i| Variable { name: format!("n{i}"), min: 40, max: 100 }).collect(),
            inputs: vec![array()],
            outputs: vec![array()],
            body,
            residual,
            proof: Proof::Unverified,
            worst,
            resident,
            trained_on: [40, 70, 100].map(trained).to_vec(),
            one_time: OneTime { bytes: one_time, allocated_bytes: one_time, blocks: vec![] },
            baseline: Some(Baseline { heap_bytes: before, resident_bytes: Some(before) }),
            seconds: Seconds { per_element: 1e-8, ..Seconds::default() },
            ..Law::default()
        };
        let mut learned = Learned::default();
        for (position, factor) in observed.iter().enumerate() {
            let shape = vec![50 + 10 * position as u64; AXES];
            if let Ok(plain) = law.plain_bytes(&shape) {
                learned.add_bytes(&law, &shape, plain.working as f64, plain.working as f64 * factor);
            }
        }
        law.learned = (!observed.is_empty()).then_some(learned);
        law
    })
}

fn one_step(shape: &[u64]) -> Graph {
    let document = serde_json::json!({
        "version": 1,
        "sources": {"v": {"shape": shape, "dtype": "<f4"}},
        "steps": [{"name": "a", "operator": "op", "inputs": ["v"]}],
    });
    Graph::parse(&document.to_string()).expect("a graph")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_whole_is_below_its_parts(law in laws(), shape in prop::collection::vec(3u64..400, AXES)) {
        let said = predict(&law, &shape).expect("a prediction");
        prop_assert!(said.upper_bytes >= said.peak_bytes);
        prop_assert_eq!(said.total_bytes, said.peak_bytes + said.input_bytes);
        let fitted = said.learned.as_ref().map_or(said.peak_bytes, |learned| learned.fitted_bytes);
        let terms: u64 = said.model.terms.iter().map(|term| term.bytes).sum();
        prop_assert!(fitted + 1 >= terms + said.model.residual_bytes, "{} {}", fitted, terms);

        let operator = said.upper_bytes + said.input_bytes;
        if let Some(resident) = &law.resident {
            let (process, bound) = (said.resident_bytes.unwrap(), said.resident_upper_bytes.unwrap());
            prop_assert!(bound >= process);
            prop_assert!(bound >= operator + said.one_time_bytes, "{} {}", bound, operator);
            let written = said.total_bytes as f64 * resident.touched;
            prop_assert!(process as f64 + 1.0 >= written, "{} {}", process, written);
        }

        let options = Options { workers: Workers::Number(2), ..Options::new(u64::MAX >> 2) };
        let Ok(Answer::Plan(plan)) = options.recommend(&law, shape.clone()) else {
            panic!("everything fits");
        };
        let block = predict(&law, &plan.chunk_shape).expect("a prediction");
        prop_assert!(plan.predicted_task_bytes >= block.upper_bytes + block.input_bytes);
        prop_assert!(
            plan.predicted_worker_bytes
                >= plan.predicted_task_bytes + plan.predicted_frontier_bytes + block.one_time_bytes
        );
        prop_assert!(plan.predicted_worker_bytes <= plan.budget_bytes);
        prop_assert!(plan.budget_bytes <= plan.memory_limit_bytes);

        let model = Model { laws: vec![law], ..Model::default() };
        let libraries = Libraries { any_version: true, ..Libraries::default() };
        let forecast = graph::predict(&model, &libraries, &one_step(&shape), Executor::Sequential);
        let forecast = forecast.expect("a forecast");
        prop_assert!(forecast.upper_bytes >= forecast.peak_bytes);
        prop_assert!(forecast.peak_bytes >= said.peak_bytes);
        prop_assert!(forecast.upper_bytes >= said.upper_bytes);
        prop_assert!(forecast.peak_bytes >= forecast.result_bytes);
        prop_assert!(forecast.peak_bytes >= forecast.set_by.working_bytes + forecast.set_by.retained_bytes);
    }
}
