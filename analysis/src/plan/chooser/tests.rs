use proptest::prelude::*;

use super::*;

fn request(shape: &[u64], halo: u64, workers: u64) -> Request {
    Request {
        operator: "filter".into(),
        halo: vec![halo; shape.len()],
        workers,
        ..Request::new(shape.to_vec(), 4, 0)
    }
}

/// The array's axes cut into 1 to 8 equal parts.
fn cuts(shape: &[u64]) -> Vec<Vec<u64>> {
    let axis = |n: u64| [1, 2, 4, 8].map(move |parts| n / parts);
    let pairs = axis(shape[0]).into_iter().flat_map(|a| axis(shape[1]).map(|b| [a, b]));
    pairs.flat_map(|[a, b]| axis(shape[2]).map(|c| vec![a, b, c])).collect()
}

fn volume(block: &[u64]) -> f64 {
    block.iter().map(|&n| n as f64).product()
}

proptest! {
    /// Memory of any constant and any cost per cell of block and result, up to 3 % of noise.
    #[test]
    fn no_choice_goes_over_the_budget(
        seed in 0u64..1_000,
        constant in 0.0..3e6f64,
        per_cell in 4.0..300.0f64,
        halo in 0u64..5,
        room in 1.5..2_000.0f64,
        noise in prop::collection::vec(0.985..1.015f64, 25),
    ) {
        let request = request(&[120, 96, 80], halo, 4);
        let needs = |block: &[u64]| constant + per_cell * volume(block);
        let block_of = |chooser: &ChunkChooser, chunk: &[u64]| {
            chooser.candidates[chooser.find(chunk).unwrap()].block.clone()
        };
        let mut chooser = ChunkChooser::new(&request, 1, Some(cuts(&request.shape)), seed).unwrap();
        let smallest = chooser.choose().unwrap();
        chooser.budget = needs(&block_of(&chooser, &smallest)) * room;
        for noise in noise {
            let chunk = chooser.choose().unwrap();
            let block = block_of(&chooser, &chunk);
            let bytes = needs(&block) * noise;
            prop_assert!(bytes <= chooser.budget, "{chunk:?} of {bytes} over {}", chooser.budget);
            prop_assert!(chooser.belief(&chunk).unwrap().upper_bytes.is_none_or(|upper| upper <= chooser.budget));
            chooser.observe(&chunk, bytes as u64, 1e-3 + 1e-8 * volume(&block)).unwrap();
        }
    }
}

#[test]
fn the_choice_becomes_the_best_one_and_is_the_same_for_a_seed() {
    let run = |seed| {
        let request = request(&[128, 128, 128], 4, 2);
        let mut chooser = ChunkChooser::new(&request, 40_000_000, None, seed).unwrap();
        let mut chosen = Vec::new();
        for _ in 0..12 {
            let chunk = chooser.choose().unwrap();
            let block = chooser.candidates[chooser.find(&chunk).unwrap()].block.clone();
            chooser.observe(&chunk, (40.0 * volume(&block)) as u64, 1e-3 + 1e-7 * volume(&block)).unwrap();
            chosen.push(chunk);
        }
        (chooser, chosen)
    };
    let (chooser, chosen) = run(5);
    assert_eq!(chosen, run(5).1);
    let seconds = |candidate: &Candidate| candidate.rounds * (1e-3 + 1e-7 * volume(&candidate.block));
    let fits = |candidate: &&Candidate| 40.0 * volume(&candidate.block) <= 40e6;
    let optimum = chooser.candidates.iter().filter(fits).map(seconds).fold(f64::INFINITY, f64::min);
    let best = chooser.find(&chooser.best().unwrap()).unwrap();
    let ratio = seconds(&chooser.candidates[best]) / optimum;
    assert!(ratio < 1.2, "{:?} takes {ratio} of the optimum", chooser.candidates[best]);
}

#[test]
fn a_chunk_that_was_killed_is_not_tried_again() {
    let chunks = vec![vec![10, 10], vec![20, 10], vec![10, 20], vec![20, 20]];
    let mut chooser = ChunkChooser::new(&request(&[20, 20], 0, 1), u64::MAX, Some(chunks), 0).unwrap();
    assert_eq!(chooser.choose(), Some(vec![10, 10]));
    chooser.observe(&[10, 10], 1000, 0.1).unwrap();
    chooser.failed(&[20, 10]).unwrap();
    for _ in 0..50 {
        let chunk = chooser.choose().unwrap();
        assert!(chunk[0] < 20, "{chunk:?}");
        chooser.observe(&chunk, 1000, 0.1).unwrap();
    }
    chooser.failed(&[10, 10]).unwrap();
    assert_eq!((chooser.choose(), chooser.best()), (None, None));
}

#[test]
fn what_is_not_of_the_feasible_set_is_refused() {
    let chooser_of = |chunks| ChunkChooser::new(&request(&[20, 20], 0, 1), 1000, Some(chunks), 0);
    for chunks in [vec![], vec![vec![10]], vec![vec![30, 10]], vec![vec![0, 10]]] {
        assert!(chooser_of(chunks).is_err());
    }
    let mut chooser = chooser_of(vec![vec![10, 10]]).unwrap();
    assert!(chooser.observe(&[5, 5], 1, 1.0).is_err());
}
