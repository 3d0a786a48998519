//! The same operator, recorded ten times while the machine does other things, gets the same chunks.

use std::collections::BTreeSet;

use memtrace_analysis::Law;
use memtrace_analysis::fit::fit_profiles;
use memtrace_analysis::plan::{Answer, Options, Source, Workers};
use memtrace_analysis::shape::volume;
use memtrace_analysis::stats::random::Random;

use crate::common::{profile, run, small_shapes};

/// The law of an operator of so many nanoseconds and bytes a cell, by a sweep on a machine with
/// other load: all of it up to six times as slow, and each call up to twice as slow as the rest.
fn law(nanoseconds: f64, bytes: u64, seed: u64) -> Law {
    let mut random = Random::seeded(seed);
    let whole = (1.0 + random.normal().abs()).min(6.0);
    let shapes = small_shapes().into_iter().chain([vec![130, 125, 128]]);
    let mut runs = Vec::new();
    for shape in shapes {
        let cells = volume(&shape) as u64;
        for call in 1..3 {
            let mut run = run("m:op", &shape, &vec![(0, bytes * cells), (0, 0)], 0);
            let slow = whole * (1.0 + random.normal().abs() / 3.0).min(2.0);
            run.span.call = call;
            run.span.end_ns = Some(200_000 + (nanoseconds * cells as f64 * slow) as i64);
            runs.push(run);
        }
    }
    fit_profiles(&profile(runs)).expect("a law").laws.remove(0)
}

fn chunks(options: &Options, law: &Law, shape: &[u64]) -> Vec<u64> {
    match options.recommend(law, shape.to_vec()).expect("a request") {
        Answer::Plan(plan) => plan.chunk_shape,
        Answer::Refusal(refusal) => panic!("{}", refusal.why),
    }
}

/// Each of ten sweeps gives the chunks that the others give, in 54 cases.
fn ten_sweeps_agree(nanoseconds: f64, bytes: u64) {
    let laws: Vec<Law> = (0..10).map(|seed| law(nanoseconds, bytes, seed)).collect();
    let times: BTreeSet<u64> = laws.iter().map(|law| (law.seconds.at(8e6) * 1e6) as u64).collect();
    assert_eq!(times.len(), 10, "the recorded times differ");
    let mut other = Vec::new();
    for halo in [0, 2, 12] {
        for (workers, threads) in [(1, 1), (2, 1), (4, 2)] {
            for (length, limit) in [(200, 1_500_000_000), (400, 2_000_000_000), (400, 8_000_000_000)] {
                for source in [Source::Dask, Source::Storage] {
                    let options = Options {
                        halo: vec![halo],
                        workers: Workers::Number(workers),
                        threads_per_worker: threads,
                        source,
                        ..Options::new(limit)
                    };
                    let found: BTreeSet<Vec<u64>> =
                        laws.iter().map(|law| chunks(&options, law, &[length; 3])).collect();
                    let case = (halo, workers, threads, length, limit, source);
                    other.extend((found.len() > 1).then(|| format!("{case:?} {found:?}")));
                }
            }
        }
    }
    assert!(other.is_empty(), "{} of 54:\n{}", other.len(), other.join("\n"));
}

#[test]
fn sweeps_of_a_structure_tensor_under_other_load_give_one_chunk_shape() {
    ten_sweeps_agree(900.0, 204);
}

#[test]
fn sweeps_of_a_filter_under_other_load_give_one_chunk_shape() {
    ten_sweeps_agree(60.0, 12);
}

#[test]
fn sweeps_of_a_copy_under_other_load_give_one_chunk_shape() {
    ten_sweeps_agree(8.0, 4);
}

/// Of cuts that are as fast, the one with few chunks, along the axis whose cells lie far apart.
#[test]
fn chunks_are_few_where_more_are_no_faster() {
    let options = Options { workers: Workers::Number(4), ..Options::new(2_000_000_000) };
    assert_eq!(chunks(&options, &law(900.0, 204, 0), &[200, 200, 200]), [50, 200, 200]);
}
