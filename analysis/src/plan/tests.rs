//! What must hold for every plan, and the three cases measured in docs/results/chunks.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::model::{DeviceBytes, TaskBytes};

/// A law like the examples': `bytes` per cell of the block, its output included.
fn law(bytes: f64) -> impl Fn(&[u64]) -> Result<TaskBytes, crate::error::Error> {
    move |block| {
        let cells = block.iter().map(|&n| n as f64).product::<f64>();
        if cells > 1e17 {
            return Err(crate::error::Error::Shape("too large for any memory".into()));
        }
        let working = (bytes * cells) as u64;
        let (input, output) = (4 * cells as u64, 4 * cells as u64);
        Ok(TaskBytes {
            working,
            working_upper: working,
            input,
            output,
            seconds: cells * 3e-8,
            one_time: 0,
            device: DeviceBytes {
                working: 2 * working,
                working_upper: 2 * working,
                input,
                before: 0,
                reserved: 1.0,
            },
        })
    }
}

fn request(shape: &[u64], halo: u64, memory_limit_bytes: u64) -> Request {
    Request {
        operator: "operator".into(),
        halo: vec![halo; shape.len()],
        workers: 2,
        budget_fraction: budget_fraction(Some(SPILL), Some(PAUSE)),
        baseline_bytes: 89_000_000,
        ..Request::new(shape.to_vec(), 4, memory_limit_bytes)
    }
}

fn plan(request: &Request, bytes: f64) -> Plan {
    match recommend(request, &law(bytes)) {
        Ok(Answer::Plan(plan)) => *plan,
        other => panic!("a plan was expected: {other:?}"),
    }
}

/// No slower by more than what counts as the same time: a twentieth of the longest that the cells may
/// take by the spread of 30 %, and tasks that are not noticed.
fn is_as_fast(seconds: f64, other: f64) -> bool {
    seconds <= other * 1.05 * 1.3 + 0.25
}

#[test]
fn a_heavy_operator_keeps_both_workers_busy_within_the_budget() {
    let plan = plan(&request(&[200, 200, 200], 2, 1_500_000_000), 204.0);
    assert!(plan.predicted_worker_bytes <= 1_050_000_000);
    assert_eq!(plan.tasks % 2, 0, "{plan:?}");
    assert!(plan.tasks <= 8, "{plan:?}");
}

/// The law of the tests needs twice as much of the device as of the host.
#[test]
fn chunks_fit_the_host_and_the_device() {
    let plain = plan(&request(&[200, 200, 200], 2, 1_500_000_000), 204.0);
    assert_eq!((plain.device, plain.bound_by), (None, None));
    assert!(plain.why.contains("allocates on a device too"), "{}", plain.why);
    let with =
        |limit| Request { device: Some(Device::new(limit)), ..request(&[200, 200, 200], 2, 1_500_000_000) };
    let large = plan(&with(80_000_000_000), 204.0);
    assert_eq!((&large.chunk_shape, large.bound_by), (&plain.chunk_shape, None));
    let small = plan(&with(1_000_000_000), 204.0);
    assert_eq!(small.bound_by, Some(Bound::DeviceMemory), "{}", small.why);
    assert!(small.tasks > large.tasks && small.device.unwrap().predicted_worker_bytes <= 1_000_000_000);
    assert!(small.why.contains("of its device's 1.00 GB"), "{}", small.why);
    let Ok(Answer::Refusal(refusal)) = recommend(&with(500_001_000), &law(204.0)) else {
        panic!("nothing fits")
    };
    assert_eq!(refusal.bound_by, Bound::DeviceMemory);
    assert!(refusal.smallest_device_limit_bytes > Some(500_001_000));
    assert!(refusal.why.contains("take a device of"), "{}", refusal.why);
}

/// Of an array that lies on a device, a worker has nothing in the host's memory.
#[test]
fn retained_chunks_are_where_the_array_is() {
    let host = request(&[400, 400, 400], 12, 700_000_000);
    let there = Request { on_device: true, device: Some(Device::new(2_000_000_000)), ..host.clone() };
    let (host, there) = (plan(&host, 4.1), plan(&there, 4.1));
    assert_eq!(there.predicted_frontier_bytes, 0);
    let device = there.device.unwrap();
    assert!(device.predicted_worker_bytes > CONTEXT_BYTES + device.predicted_task_bytes, "{there:?}");
    assert!(there.tasks < host.tasks, "the host has more room");
}

#[test]
fn the_largest_batch_is_the_last_that_fits() {
    let one = |limit| Request {
        memory_limit_bytes: u64::MAX >> 4,
        device: Some(Device::new(limit)),
        ..request(&[1, 64, 64], 0, 0)
    };
    let found = |limit, multiple| match longest(&one(limit), 0, multiple, &law(100.0)).unwrap() {
        Reach::Longest(found) => found.length,
        Reach::Refusal(refusal) => panic!("{}", refusal.why),
    };
    // 204 bytes a cell on the device, in addition to the context.
    let fits = |limit: u64| (limit - CONTEXT_BYTES) / (204 * 64 * 64);
    for limit in [502_000_000, 1_000_000_000, 80_000_000_000, 80_000_835_583] {
        assert_eq!(found(limit, 1), fits(limit), "{limit}");
    }
    assert_eq!(found(80_000_000_000, 64), fits(80_000_000_000) / 64 * 64);
    let none = longest(&one(500_000_100), 0, 1, &law(100.0)).unwrap();
    assert!(matches!(none, Reach::Refusal(refusal) if refusal.bound_by == Bound::DeviceMemory));
    assert!(longest(&one(1), 3, 1, &law(100.0)).is_err() && longest(&one(1), 0, 0, &law(100.0)).is_err());
}

#[test]
fn retained_neighbours_decide_for_a_lean_operator() {
    let plan = plan(&request(&[400, 400, 400], 12, 700_000_000), 4.1);
    assert!(plan.predicted_worker_bytes <= 490_000_000);
    assert!(plan.predicted_frontier_bytes > plan.predicted_task_bytes, "{plan:?}");
    assert!(plan.why.contains("kept for their neighbours"), "{}", plan.why);
}

#[test]
fn a_long_array_is_cut_along_its_long_axis() {
    let plan = plan(&request(&[1600, 60, 60], 2, 1_500_000_000), 204.0);
    assert_eq!(plan.chunk_shape[1..], [60, 60], "{plan:?}");
    assert_eq!(plan.tasks % 2, 0);
}

#[test]
fn nothing_is_retained_for_neighbours_where_tasks_read_their_halos_themselves() {
    let shared = request(&[400, 400, 400], 12, 700_000_000);
    let stored = Request { source: Source::Storage, ..shared.clone() };
    let (shared, stored) = (plan(&shared, 4.1), plan(&stored, 4.1));
    assert_eq!(stored.predicted_frontier_bytes, 0);
    assert!(stored.predicted_worker_bytes < shared.predicted_worker_bytes, "{stored:?}");
    // A budget that no grid of shared chunks fits.
    let small = Request { memory_limit_bytes: 215_000_000, ..request(&[400, 400, 400], 12, 0) };
    let Ok(Answer::Refusal(refusal)) = recommend(&small, &law(4.1)) else { panic!("no refusal") };
    assert!(refusal.why.contains("In waves"), "{}", refusal.why);
    let waves = refusal.waves.expect("waves fit");
    assert!(waves.predicted_worker_bytes <= small.budget_bytes());
}

#[test]
fn reading_a_block_counts_as_far_as_the_operator_needs_less() {
    let stored = Request {
        source: Source::Storage,
        storage_chunks: Some(vec![100, 100, 100]),
        minimise: Minimise::Tasks,
        ..request(&[200, 200, 200], 0, u64::MAX)
    };
    // Eight chunks of 4 MB, each as it is stored and as it is decoded, in addition to the block.
    let (lean, heavy) = (plan(&stored, 4.0), plan(&stored, 200.0));
    assert_eq!((lean.tasks, lean.predicted_task_bytes), (1, 2 * 8 * 4_000_000 + 32_000_000));
    assert_eq!(heavy.predicted_task_bytes, 200 * 8_000_000 + 32_000_000);
}

#[test]
fn chunks_for_which_the_extra_bytes_leave_no_room_are_not_taken() {
    // Eight chunks or more, of which those that cut the first axis need a gigabyte more.
    let counted = Arc::new(AtomicU64::new(0));
    let count = counted.clone();
    let extra = Extra::new(move |chunks: &Counted| {
        count.fetch_add(1, Ordering::Relaxed);
        assert!(chunks.task_bytes > 0);
        if chunks.chunks[0].len() > 1 { 1_000_000_000 } else { 1_000_000 }
    });
    let free = request(&[200, 200, 200], 0, 200_000_000);
    let cut = Request { extra: Some(extra), ..free.clone() };
    let (without, with) = (plan(&free, 8.0), plan(&cut, 8.0));
    assert_eq!(with.chunks[0].len(), 1);
    assert!(with.predicted_worker_bytes <= cut.budget_bytes());
    let bare = Request { extra: Some(Extra::new(|_| 0)), ..free.clone() };
    assert_eq!(plan(&bare, 8.0).chunk_shape, without.chunk_shape);
    assert!(counted.load(Ordering::Relaxed) <= 100);
    // None of the fastest hundred has room: small chunks do.
    let large = |chunks: &Counted| if chunks.chunks.iter().any(|axis| axis[0] > 250) { u64::MAX } else { 0 };
    let small = Request { extra: Some(Extra::new(large)), ..request(&[2000, 2000, 20], 0, 2_000_000_000) };
    assert!(plan(&small, 8.0).chunk_shape.iter().all(|length| *length <= 250));
    let never = Request { extra: Some(Extra::new(|_| u64::MAX)), ..free };
    let Ok(Answer::Refusal(refusal)) = recommend(&never, &law(8.0)) else { panic!("no refusal") };
    assert!(refusal.why.contains("reading or cutting"), "{}", refusal.why);
}

#[test]
fn of_choices_that_are_alike_one_stays() {
    let choice = |bytes, tasks| Choice {
        chunk_shape: vec![tasks],
        tasks,
        predicted_worker_bytes: bytes,
        predicted_device_bytes: None,
        predicted_seconds: 2.0,
        fits: true,
    };
    let (less, more) = (choice(1000, 11), choice(1010, 10));
    assert!(!less.beats(&more) && !more.beats(&less));
    let (less, more) = (choice(1000, 100), choice(1010, 99));
    assert!(less.beats(&more) && !more.beats(&less));
}

#[test]
fn chunks_are_whole_chunks_of_the_store_where_these_fit() {
    let stored = |chunk: Vec<u64>, limit| Request {
        source: Source::Storage,
        storage_chunks: Some(chunk),
        ..request(&[400, 300, 200], 2, limit)
    };
    let aligned = plan(&stored(vec![64, 64, 64], 700_000_000), 60.0);
    let whole = |(axis, &cells): (usize, &u64)| cells % 64 == 0 || cells == [400, 300, 200][axis];
    assert!(aligned.chunk_shape.iter().enumerate().all(whole), "{aligned:?}");
    // A trace is read whole: an axis that lies in one storage chunk is not cut.
    assert_eq!(plan(&stored(vec![1, 1, 200], 700_000_000), 60.0).chunk_shape[2], 200);
    let unaligned = plan(&stored(vec![400, 300, 100], 700_000_000), 60.0);
    assert!(unaligned.why.contains("whole chunks of the store"), "{}", unaligned.why);
    // Where two tasks must not write one chunk, there is no other way.
    let must = Request { aligned: true, ..stored(vec![400, 300, 100], 700_000_000) };
    assert!(matches!(recommend(&must, &law(60.0)), Ok(Answer::Refusal(_))));
    let wrong = stored(vec![64], 700_000_000);
    assert!(recommend(&wrong, &law(60.0)).is_err());
}

#[test]
fn memory_or_the_number_of_tasks_may_count_instead_of_time() {
    let with = |minimise| plan(&Request { minimise, ..request(&[300, 300, 300], 2, 1_500_000_000) }, 60.0);
    let (time, memory, tasks) = (with(Minimise::Time), with(Minimise::Memory), with(Minimise::Tasks));
    assert!(memory.predicted_worker_bytes < time.predicted_worker_bytes);
    assert!(tasks.tasks <= time.tasks && tasks.tasks <= memory.tasks);
    assert!(is_as_fast(time.predicted_seconds, memory.predicted_seconds.min(tasks.predicted_seconds)));
    // The choices that are given are on the front, the chosen one or a better one among them.
    for (at, choice) in time.pareto.iter().enumerate() {
        assert!(choice.predicted_worker_bytes <= time.budget_bytes);
        assert!(time.pareto[at + 1..].iter().all(|slower| !choice.beats(slower) && !slower.beats(choice)));
    }
    assert!(time.pareto.iter().any(|choice| *choice == time.as_choice() || choice.beats(&time.as_choice())));
    assert!(time.pareto.len() > 2, "{:?}", time.pareto);
}

#[test]
fn dasks_own_choice_is_given_with_what_it_needs() {
    let heavy = request(&[200, 200, 200], 2, 1_500_000_000);
    let Compared::Auto(auto) = BaselineChunks::Auto.compared(&heavy, &law(204.0)).unwrap() else {
        panic!("not Dask's")
    };
    assert_eq!((auto.chunk_shape.as_slice(), auto.tasks, auto.fits), ([200, 200, 200].as_slice(), 1, false));
    assert!(auto.predicted_worker_bytes > 1_600_000_000);
}

#[test]
fn baseline_chunks_are_given_with_what_they_need() {
    let heavy = request(&[200, 200, 200], 2, 1_500_000_000);
    let needs = |lengths: &[u64]| BaselineChunks::Chunks(lengths.to_vec()).compared(&heavy, &law(204.0));
    let plan = plan(&heavy, 204.0);
    assert_eq!(needs(&plan.chunk_shape).unwrap(), Compared::Chunks(plan.as_choice()));
    for (lengths, word) in [
        (vec![200, 200], "one length per axis"),
        (vec![200, 200, 201], "from 1 to"),
        (vec![200, 0, 200], "from 1 to"),
        (vec![200, 1, 200], "smaller than the halo"),
        (vec![199, 200, 200], "leave one of 1"),
    ] {
        let error = needs(&lengths).expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn as_many_workers_are_taken_as_are_worth_having() {
    let Ok(Answer::Plan(plan)) = recommend_workers(&request(&[400, 400, 400], 2, 3_000_000_000), &law(60.0))
    else {
        panic!("no plan")
    };
    assert!(plan.workers > 2 && plan.tried.len() > 3, "{plan:?}");
    assert!(plan.why.contains("% of the time"), "{}", plan.why);
    // One that fits no number of workers is refused.
    let small = request(&[400, 400, 400], 2, 100_000_000);
    assert!(matches!(recommend_workers(&small, &law(60.0)), Ok(Answer::Refusal(_))));
}

#[test]
fn few_blocks_may_all_be_retained_by_one_of_as_many_workers() {
    // Measured: four blocks of a Gaussian on four workers, 3.3 chunks retained by one of them.
    assert_eq!([1, 3, 4, 8].map(|workers| source::share(4, 1, workers)), [4, 4, 4, 3]);
    // Where there are many, one more is next to nothing.
    assert_eq!([4, 8].map(|workers| source::share(1000, 1, workers)), [751, 376]);
    assert_eq!(source::share(u64::MAX, u64::MAX, 4), u64::MAX);
}

#[test]
fn a_refusal_names_a_budget_that_works() {
    let small = request(&[400, 400, 400], 12, 150_000_000);
    let Ok(Answer::Refusal(refusal)) = recommend(&small, &law(4.1)) else { panic!("no refusal") };
    assert!(refusal.smallest_budget_bytes > refusal.budget_bytes);
    let enough = request(&[400, 400, 400], 12, refusal.smallest_memory_limit_bytes + 1);
    assert!(matches!(recommend(&enough, &law(4.1)), Ok(Answer::Plan(_))));
    let less = request(&[400, 400, 400], 12, refusal.smallest_memory_limit_bytes / 100 * 99);
    assert!(matches!(recommend(&less, &law(4.1)), Ok(Answer::Refusal(_))));
}

#[test]
fn requests_that_contradict_themselves_are_refused_in_words() {
    let good = request(&[100, 100], 1, 1_000_000_000);
    for (bad, word) in [
        (Request { shape: vec![], halo: vec![], ..good.clone() }, "empty"),
        (Request { shape: vec![0, 4], ..good.clone() }, "empty"),
        (Request { halo: vec![1], ..good.clone() }, "halo"),
        (Request { whole_axes: vec![2], ..good.clone() }, "axis 2"),
        (Request { workers: 0, ..good.clone() }, "workers"),
        (Request { budget_fraction: f64::NAN, ..good.clone() }, "memory limit"),
    ] {
        let error = recommend(&bad, &law(8.0)).map(|_| ()).expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn plans_are_written_for_each_target() {
    let plan = Plan {
        chunks: vec![vec![34, 34, 32], vec![7]],
        chunk_shape: vec![34, 7],
        ..plan(&request(&[100, 7], 0, 700_000_000), 8.0)
    };
    assert_eq!(plan.render(Target::Dask), "((34, 34, 32), (7,))");
    assert_eq!(plan.render(Target::Dasf), "chunks=(34, 7)");
    let pod = plan.render(Target::Kubernetes);
    assert!(pod.starts_with("resources:\n  requests:\n    cpu: \"1\"\n    memory: \"1"), "{pod}");
    assert_eq!(plan.render(Target::Env), "export DASK_ARRAY__CHUNK_SIZE=952B");
    let slurm = plan.render(Target::Slurm);
    assert!(
        slurm.starts_with("#SBATCH --ntasks=2\n#SBATCH --cpus-per-task=1\n#SBATCH --mem-per-cpu=1"),
        "{slurm}"
    );
}

#[test]
fn the_budget_is_the_lowest_fraction_that_is_switched_on() {
    assert_eq!(budget_fraction(Some(0.7), Some(0.8)), 0.7);
    assert_eq!(budget_fraction(None, Some(0.8)), 0.8);
    assert_eq!(budget_fraction(None, None), 1.0);
}

fn requests() -> impl Strategy<Value = (Request, f64)> {
    let axis = prop_oneof![1u64..50, 50u64..3000, Just(u64::MAX), 1u64..u64::MAX];
    let axes = prop::collection::vec((axis, prop_oneof![0u64..20, Just(u64::MAX)], any::<bool>()), 1..4);
    let numbers = (
        1u64..9,
        1u64..5,
        prop_oneof![0u64..1 << 34, Just(u64::MAX)],
        prop_oneof![0u64..1 << 30, Just(u64::MAX)],
    );
    let source = prop_oneof![Just(Source::Dask), Just(Source::Storage), Just(Source::Waves)];
    let minimise = prop_oneof![Just(Minimise::Time), Just(Minimise::Memory), Just(Minimise::Tasks)];
    let stored = prop::option::of(prop_oneof![1u64..200, Just(u64::MAX)]);
    let device = prop::option::of(prop_oneof![1u64..1 << 34, Just(u64::MAX)]);
    let choices = (source, minimise, stored, device, any::<bool>());
    (axes, numbers, 0.0..300.0, choices).prop_map(|(axes, numbers, bytes, choices)| {
        let (source, minimise, stored, device, on_device) = choices;
        let (workers, threads, limit, baseline) = numbers;
        let shape: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
        let request = Request {
            halo: axes.iter().map(|axis| axis.1).collect(),
            whole_axes: (0..axes.len()).filter(|&i| axes[i].2).collect(),
            workers,
            threads_per_worker: threads,
            baseline_bytes: baseline,
            source,
            minimise,
            device: device.map(Device::new),
            on_device,
            storage_chunks: stored.map(|length| vec![length; shape.len()]),
            ..request(&shape, 0, limit)
        };
        (request, bytes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the request: no panic, and a plan can be stored, cut and afforded.
    #[test]
    fn every_plan_is_storable_and_under_its_budget((request, bytes) in requests()) {
        if let Ok(Answer::Plan(plan)) = recommend(&request, &law(bytes)) {
            prop_assert!(plan.predicted_worker_bytes <= request.budget_bytes());
            let within = |device: DevicePlan| device.predicted_worker_bytes <= device.limit_bytes;
            prop_assert!(plan.device.is_none_or(within));
            prop_assert!(plan.pareto.iter().all(|choice| choice.fits));
            for (axis, sizes) in plan.chunks.iter().enumerate() {
                prop_assert_eq!(sizes.iter().sum::<u64>(), request.shape[axis]);
                let (last, others) = sizes.split_last().expect("an axis has a chunk");
                prop_assert!(others.iter().all(|size| size == &sizes[0]) && *last <= sizes[0]);
                prop_assert!(sizes.len() == 1 || *last >= request.halo[axis]);
                prop_assert!(sizes.len() == 1 || !request.whole_axes.contains(&axis));
            }
        }
    }

    /// A larger budget never makes a plan slower by more than what counts as the same time.
    #[test]
    fn more_memory_is_never_slower(limit in 300_000_000u64..3_000_000_000, more in 1.0..4.0, bytes in 4.0..250.0) {
        let seconds = |limit| match recommend(&request(&[300, 200, 100], 3, limit), &law(bytes)) {
            Ok(Answer::Plan(plan)) => plan.predicted_seconds,
            _ => f64::INFINITY,
        };
        prop_assert!(is_as_fast(seconds((limit as f64 * more) as u64), seconds(limit)));
    }
}
