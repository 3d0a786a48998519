//! Windows and gains of runs that are made up.

use super::gains::gains;
use super::object::{Gained, Object, Where};
use super::observed::{Block, Key, Observed, Sample};
use super::plan::{Middle, Move, MoveKind, PLAN_VERSION, Plan, Program, Seconds, Tiers};
use super::windows::{Window, cut, matched};

const MILLISECOND: i64 = 1_000_000;

/// A run in which each phase meets one object, or none, for so many milliseconds.
fn run(phases: &[(Option<usize>, i64)]) -> Observed {
    let mut samples = Vec::new();
    for (object, length) in phases {
        for _ in 0..*length {
            let time_ns = samples.len() as i64 * MILLISECOND;
            samples.push(Sample { time_ns, object: *object });
        }
    }
    let key = |object| Key { site: Some(object), bytes: 1 << 20, ordinal: 0 };
    Observed {
        program: Program { path: "/p".into(), before: 0, command: "p".into() },
        process: 0,
        user_seconds: samples.len() as f64 / 1e3,
        system_seconds: 0.0,
        objects: (0..3).map(key).collect(),
        blocks: (0..3).map(|object| Block { object, alloc_ns: 0, free_ns: None, address: 0 }).collect(),
        all_samples: samples.len(),
        samples,
        touching: 0,
        without_address: 0,
    }
}

#[test]
fn a_run_is_cut_where_time_says() {
    let windows = cut(&run(&[(Some(1), 70), (None, 30)]).samples);
    let met = |samples, met: &[(usize, u32)]| Window { samples, met: met.to_vec() };
    assert_eq!(windows, [met(50, &[(1, 50)]), met(50, &[(1, 20)])]);
    assert!(cut(&[]).is_empty());
}

#[test]
fn each_phase_is_matched_with_itself() {
    let slow = cut(&run(&[(Some(0), 1000), (Some(1), 500), (Some(0), 1000)]).samples);
    let fast = cut(&run(&[(Some(0), 500), (Some(1), 500), (Some(0), 700)]).samples);
    let samples = matched(&slow, &fast);
    let of = |part: std::ops::Range<usize>| samples[part].iter().sum::<f64>();
    assert_eq!((of(0..20), of(20..30), of(30..50)), (500.0, 500.0, 700.0));
    assert_eq!(matched(&slow, &[]), vec![0.0; 50]);
}

#[test]
fn an_object_gains_what_its_phase_gains() {
    let slow = run(&[(Some(0), 1000), (None, 400), (Some(1), 600), (Some(2), 200)]);
    let fast = run(&[(Some(0), 500), (None, 400), (Some(1), 600), (Some(2), 100)]);
    let gained: Vec<f64> = gains(&slow, &fast).iter().map(|gain| gain.seconds).collect();
    for (gained, expected) in gained.iter().zip([0.5, 0.0, 0.1]) {
        assert!((gained - expected).abs() < 0.03, "{gained} for {expected}");
    }
}

/// What the kernel does differs by the bytes that it hands out.
#[test]
fn time_of_the_kernel_is_shared_by_bytes() {
    let (mut slow, fast) = (run(&[(Some(0), 100)]), run(&[(Some(0), 100)]));
    slow.system_seconds = 0.3;
    let gained: Vec<f64> = gains(&slow, &fast).iter().map(|gain| gain.seconds).collect();
    assert!(gained.iter().all(|gain| (gain - 0.1).abs() < 1e-9), "{gained:?}");
}

fn some_plan() -> Plan {
    let object = Object {
        site: Some(7),
        place: None,
        bytes: 1 << 20,
        ordinal: 0,
        blocks: 3,
        time_share: 0.5,
        gain_seconds: 1.0,
        gain_error_seconds: 0.1,
        middle: Some(Gained { gain_seconds: 0.4, gain_error_seconds: 0.1 }),
        tier: Where::Fast,
        moved_bytes: 8192,
    };
    Plan {
        plan_version: PLAN_VERSION,
        program: Program { path: "/p".into(), before: 0, command: "p".into() },
        tiers: Tiers { slow: "small-pages".into(), fast: "huge-pages".into() },
        middle: Some(Middle { tier: "node:1".into(), bytes: 1 << 20, used_bytes: 0, seconds: 4.6 }),
        fast_bytes: 2 << 20,
        used_bytes: 1 << 20,
        seconds: Seconds { slow: 5.0, fast: 4.0, planned: 4.0, uncertainty: 0.2 },
        traffic: None,
        worth: true,
        notes: Vec::new(),
        objects: vec![object],
        blocks: vec![(0, 3)],
        alternatives: Vec::new(),
        moves: vec![Move { block: 2, kind: MoveKind::Out, object: 0, first: 1, pages: 2 }],
    }
}

fn loaded(text: &str) -> Result<Plan, super::Error> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan.json");
    std::fs::write(&path, text).unwrap();
    Plan::load(&path)
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    assert_eq!(loaded(&some_plan().to_json()).unwrap(), some_plan());
    assert_eq!(some_plan().table().collect::<Vec<_>>(), [(0, 1 << 20, Where::Fast); 3]);
}

#[test]
fn an_object_gains_what_its_tier_gives() {
    let planned = |tier| {
        let mut plan = some_plan();
        plan.objects[0].tier = tier;
        plan.moved();
        (plan.seconds.planned, plan.used_bytes, plan.middle.map(|middle| middle.used_bytes))
    };
    assert_eq!(planned(Where::Slow), (5.0, 0, Some(0)));
    assert_eq!(planned(Where::Middle), (4.6, 0, Some(1 << 20)));
    assert_eq!(planned(Where::Fast), (4.0, 1 << 20, Some(0)));
}

#[test]
fn what_is_no_plan_is_refused_in_a_sentence() {
    let change = |change: fn(&mut Plan)| {
        let mut plan = some_plan();
        change(&mut plan);
        plan.to_json()
    };
    let wrong = [
        ("", "EOF"),
        ("[]", "expected"),
        (&change(|plan| plan.plan_version = 9), "it has version 9"),
        (&change(|plan| plan.blocks = vec![(1, 1)]), "objects that it does not have"),
        (&change(|plan| plan.blocks = vec![(0, u32::MAX); 2]), "blocks, more than"),
        (
            &change(|plan| {
                plan.middle = None;
                plan.objects[0].tier = Where::Middle;
            }),
            "a middle tier that it does not have",
        ),
        (&change(|plan| plan.objects[0].middle.as_mut().unwrap().gain_seconds = 1e300), "no run takes"),
        (&change(|plan| plan.seconds.planned = 1e308), "no run takes"),
        (&change(|plan| plan.objects[0].time_share = 1e308), "shares of time"),
        (&change(|plan| plan.moves[0].block = 3), "moves blocks that it does not have"),
        (&change(|plan| plan.moves[0].object = 1), "moves blocks that it does not have"),
    ];
    for (text, why) in wrong {
        let said = loaded(text).unwrap_err().to_string();
        assert!(said.contains(why) && said.contains("place plan"), "{said}");
    }
    assert!(Plan::load(std::path::Path::new("/dev/null")).unwrap_err().to_string().contains("not a file"));
    assert!(Plan::load(std::path::Path::new("/nothing")).is_err());
}
