//! Laws of resident memory, and of operators whose memory depends on what is in their arrays.

use crate::common;
use memtrace_analysis::fit::fit_profiles;
use memtrace_analysis::predict;
use memtrace_analysis::profile::{Profile, Run};

const BASE: u64 = 60_000_000;

/// Two temporaries of the input's size, the input released neither; resident: all of it and a base.
fn run(shape: &[u64], extra: u64) -> Run {
    let array = 4 * shape.iter().product::<u64>();
    let mut run = common::run("blur", shape, &vec![(0, array), (1, array + extra), (0, 0), (1, 0)], 0);
    let page = |bytes: u64| (bytes + 16).next_multiple_of(4096);
    run.span.resident_peak_bytes = Some(BASE + 2 * page(array) + page(array + extra));
    run.span.at_resident_peak = Some(Default::default());
    run
}

fn shapes() -> [[u64; 3]; 3] {
    [[71, 73, 79], [83, 89, 97], [90, 101, 103]]
}

#[test]
fn resident_memory_is_the_blocks_and_what_the_process_had_before() {
    let mut profile = Profile::of_runs(shapes().iter().map(|shape| run(shape, 0)).collect());
    profile.allocators.insert(0, "MALLOC_TRIM_THRESHOLD_=65536".into());
    let model = fit_profiles(&[profile]).unwrap();
    let predicted = predict(&model.laws[0], &[300, 310, 320]).unwrap();
    let expected = BASE + 3 * 4 * 300 * 310 * 320;
    let error = predicted.resident_bytes.unwrap() as f64 / expected as f64 - 1.0;
    assert!(error.abs() < 1e-3, "{error}: {:?}", model.laws[0].resident);
    assert!(predicted.resident_upper_bytes >= predicted.resident_bytes);
    let resident = model.laws[0].resident.as_ref().unwrap();
    assert_eq!((resident.settings.as_str(), resident.shapes), ("MALLOC_TRIM_THRESHOLD_=65536", 3));
    let read = memtrace_analysis::Model::parse(&model.to_json().unwrap()).unwrap();
    assert_eq!(read, model);
}

#[test]
fn a_law_whose_runs_of_one_shape_differ_is_bounded_by_the_largest_of_them() {
    let of_shape = |shape: &[u64; 3]| {
        let array = 4 * shape.iter().product::<u64>();
        [0, array / 3, array].map(|extra| run(shape, extra))
    };
    let profile = Profile::of_runs(shapes().iter().flat_map(of_shape).collect());
    let model = fit_profiles(&[profile]).unwrap();
    let predicted = predict(&model.laws[0], &[85, 90, 95]).unwrap();
    let array = 4 * 85 * 90 * 95;
    assert_eq!(predicted.data_dependent, Some(true));
    assert!(
        predicted.upper_bytes >= 3 * array && predicted.upper_bytes < 3 * array + array / 50,
        "{predicted:?}"
    );
    assert!(predicted.peak_bytes < predicted.upper_bytes);
    assert_eq!(predicted.confidence, "unverified", "nine runs calibrate nothing");

    let steady = |shape: &[u64; 3]| [run(shape, 0), run(shape, 0)];
    let profile = Profile::of_runs(shapes().iter().flat_map(steady).collect());
    let model = fit_profiles(&[profile]).unwrap();
    assert_eq!(model.laws[0].data_dependent, Some(false));
}
