//! Slow memory: chunks whose workers exceed their budget, where moving the excess to swap and back
//! takes less time than smaller chunks do.

use schemars::JsonSchema;
use serde::Serialize;

use super::candidate::Candidate;
use super::grid::Grid;
use super::request::Request;
use super::worker_bytes::WorkerBytes;
use crate::placement::swap::Machine;
use crate::units::Bytes;

/// How often what is beyond the budget goes there and comes back for a task: an operator that passes
/// over its arrays several times needs some again that the kernel has moved. The median of the
/// operators of examples/operators with compressed memory (docs/results/placement-chunks.md), and what
/// a plan has to gain by even then: a quarter of the measured runs moved more.
const TIMES: f64 = 1.75;
const CAUTIOUS_TIMES: f64 = 2.5;
/// A part of what a worker needs beyond its fixed bytes: with less in memory nothing was measured.
const MOST_PART: f64 = 0.7;

/// Swap that each worker may take beyond its budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowMemory {
    /// How much of it.
    pub limit_bytes: u64,
    /// CPU seconds that the kernel takes to move a byte there and back.
    pub byte_seconds: f64,
    /// How far, as a part of it, that may be off.
    pub spread: f64,
}

/// What a plan takes of slow memory. Bytes and seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SlowPlan {
    /// What of a worker is there at a time: pages of it go and come back while its tasks run.
    pub predicted_moved_bytes: u64,
    /// What these moves take of `predicted_seconds`.
    pub predicted_seconds: f64,
    /// What a worker may use of it.
    pub limit_bytes: u64,
    /// From submission to result with chunks that need none of it; null if none fit.
    pub without_seconds: Option<f64>,
}

impl SlowMemory {
    /// On a machine that `memtrace place calibrate` has measured.
    pub fn of(machine: &Machine, limit_bytes: u64) -> SlowMemory {
        SlowMemory { limit_bytes, byte_seconds: machine.byte_seconds(), spread: machine.spread() }
    }

    /// Seconds that a computation takes longer where what is beyond the budget moves with each round of
    /// tasks, one of each thread.
    pub(super) fn seconds(&self, request: &Request, grid: &Grid, worker: &WorkerBytes) -> f64 {
        let slots = request.workers.saturating_mul(request.threads_per_worker).max(1);
        let rounds = grid.chunks().div_ceil(slots);
        rounds as f64 * excess(request, worker) as f64 * TIMES * self.byte_seconds
    }

    /// How much longer than that it takes, to be cautious.
    pub(super) fn cautious(&self) -> f64 {
        CAUTIOUS_TIMES / TIMES * (1.0 + self.spread)
    }

    /// What of a worker may be there at most: no more than was measured.
    pub(super) fn most_bytes(&self, worker: &WorkerBytes) -> u64 {
        let movable = worker.peak().saturating_sub(worker.fixed);
        self.limit_bytes.min((movable as f64 * MOST_PART) as u64)
    }

    /// What a plan says of it.
    pub(super) fn plan(&self, request: &Request, best: &Candidate, without: Option<f64>) -> SlowPlan {
        SlowPlan {
            predicted_moved_bytes: excess(request, &best.worker),
            predicted_seconds: self.seconds(request, &best.timed.grid, &best.worker),
            limit_bytes: self.limit_bytes,
            without_seconds: without,
        }
    }
}

impl SlowPlan {
    /// Why it is taken, as a sentence.
    pub(super) fn why(&self) -> String {
        let without = match self.without_seconds {
            Some(seconds) => format!("chunks that need none of it would take {seconds:.1} s"),
            None => "no chunks fit without it".to_owned(),
        };
        let (moved, limit) = (Bytes(self.predicted_moved_bytes), Bytes(self.limit_bytes));
        let seconds = self.predicted_seconds;
        format!(
            " Of each worker, {moved} go to slow memory (of {limit}) and come back with each round of tasks, which takes about {seconds:.1} s in all; {without}."
        )
    }
}

/// Bytes of a worker that are beyond its budget.
pub(super) fn excess(request: &Request, worker: &WorkerBytes) -> u64 {
    worker.peak().saturating_sub(request.budget_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Answer, Plan, Request, Source, recommend};
    use super::*;
    use crate::model::TaskBytes;

    /// 200 bytes and 300 ns a cell.
    fn law(block: &[u64]) -> Result<TaskBytes, crate::Error> {
        let cells = block.iter().product::<u64>();
        let seconds = cells as f64 * 3e-7;
        Ok(TaskBytes { working: 200 * cells, input: 4 * cells, seconds, ..TaskBytes::default() })
    }

    /// Chunks with wide halos, read from a store: large ones compute much less.
    fn request(memory: u64, slow: Option<SlowMemory>) -> Request {
        Request {
            operator: "operator".into(),
            halo: vec![10; 3],
            source: Source::Storage,
            slow,
            ..Request::new(vec![200; 3], 4, memory)
        }
    }

    fn planned(memory: u64, slow: Option<SlowMemory>) -> Answer {
        recommend(&request(memory, slow), &law).expect("an answer")
    }

    fn plan(memory: u64, slow: Option<SlowMemory>) -> Plan {
        match planned(memory, slow) {
            Answer::Plan(plan) => *plan,
            Answer::Refusal(refusal) => panic!("{}", refusal.why),
        }
    }

    fn swap(limit_bytes: u64, page_micros: f64) -> Option<SlowMemory> {
        Some(SlowMemory { limit_bytes, byte_seconds: page_micros / 4096.0 / 1e6, spread: 0.2 })
    }

    #[test]
    fn chunks_are_larger_where_moves_cost_less_than_halos() {
        let without = plan(100_000_000, None);
        let cheap = plan(100_000_000, swap(1_000_000_000, 1.0));
        let slow = cheap.slow.expect("slow memory is taken");
        assert!(cheap.tasks < without.tasks && cheap.predicted_seconds < without.predicted_seconds);
        assert_eq!(slow.predicted_moved_bytes, cheap.predicted_worker_bytes - 100_000_000);
        assert_eq!(slow.without_seconds, Some(without.predicted_seconds));
        let moved = (cheap.tasks * slow.predicted_moved_bytes) as f64;
        assert!((slow.predicted_seconds - TIMES * moved / 4096.0 * 1e-6).abs() < 1e-9);
        assert!(cheap.why.contains("go to slow memory (of 1.00 GB)"), "{}", cheap.why);
        assert!(!cheap.why.contains("No chunking that fits"), "{}", cheap.why);
        let swap = slow.predicted_moved_bytes.div_ceil(1 << 20);
        for target in [super::super::Target::Slurm, super::super::Target::Kubernetes] {
            let text = cheap.render(target);
            assert!(text.starts_with(&format!("# Each worker needs {swap} MiB of swap")), "{text}");
            assert!(!without.render(target).contains("swap"));
        }
    }

    #[test]
    fn chunks_are_as_without_it_where_moves_cost_more() {
        let without = plan(100_000_000, None);
        let dear = plan(100_000_000, swap(1_000_000_000, 1000.0));
        assert_eq!(dear, without);
    }

    #[test]
    fn slow_memory_lets_fit_what_would_not() {
        let Answer::Refusal(refusal) = planned(12_000_000, None) else { panic!("it fits") };
        let least = refusal.smallest_budget_bytes;
        assert!(least > 12_000_000);
        let slow = plan(12_000_000, swap(1_000_000_000, 1000.0)).slow.expect("slow memory is taken");
        assert_eq!(slow.without_seconds, None);
        let Answer::Refusal(refusal) = planned(12_000_000, swap(100_000, 10.0)) else { panic!("it fits") };
        assert_eq!(refusal.smallest_budget_bytes, least - 100_000);
        plan(refusal.smallest_memory_limit_bytes, swap(100_000, 10.0));
    }

    #[test]
    fn no_more_goes_there_than_was_measured() {
        let swap = swap(1_000_000_000_000, 0.001);
        let Answer::Refusal(refusal) = planned(8_100_000, swap) else {
            panic!("next to nothing would stay in memory")
        };
        assert!(refusal.smallest_memory_limit_bytes > 8_100_000, "{}", refusal.why);
        assert!(refusal.why.contains("a budget of 8.10 MB"), "{}", refusal.why);
        plan(refusal.smallest_memory_limit_bytes, swap);
    }

    #[test]
    fn a_round_of_tasks_moves_what_they_need_together() {
        let grid = Grid { shape: vec![100; 3], chunk: vec![50; 3], halo: vec![0; 3] };
        let seconds = |workers, threads_per_worker| {
            let request = Request { workers, threads_per_worker, ..Request::new(vec![100; 3], 4, 1_000) };
            let worker = WorkerBytes { fixed: 0, tasks: 5_096, frontier: 0, extra: 0, device: 0 };
            swap(10_000, 8.0).expect("slow memory").seconds(&request, &grid, &worker)
        };
        assert!((seconds(1, 1) - 8.0 * TIMES * 8e-6).abs() < 1e-12);
        assert_eq!(
            (seconds(2, 1), seconds(1, 2), seconds(3, 2)),
            (seconds(1, 1) / 2.0, seconds(1, 1) / 2.0, seconds(1, 1) / 4.0,)
        );
    }

    #[test]
    fn only_seconds_are_weighed() {
        let request = Request {
            minimise: super::super::Minimise::Tasks,
            slow: swap(1_000_000_000, 10.0),
            ..Request::new(vec![200; 3], 4, 100_000_000)
        };
        let error = recommend(&request, &law).expect_err("a contradiction");
        assert!(error.to_string().contains("minimise time"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn slow_memory_never_makes_a_plan_slower(
            memory in 40_000_000u64..1_000_000_000,
            limit in 0u64..2_000_000_000,
            micros in 0.0f64..200.0,
            seconds_spread in 0.3f64..2.0,
            workers in 1u64..5,
        ) {
            let plan = |slow| {
                let request = Request { seconds_spread, workers, ..request(memory, slow) };
                match recommend(&request, &law) {
                    Ok(Answer::Plan(plan)) => plan,
                    other => panic!("a plan was expected: {other:?}"),
                }
            };
            let (without, with) = (plan(None), plan(swap(limit, micros)));
            prop_assert!(with.predicted_seconds <= without.predicted_seconds);
            prop_assert!(with.predicted_worker_bytes <= memory + limit);
            prop_assert_eq!(with.slow.is_some(), with.predicted_worker_bytes > memory);
        }

        #[test]
        fn nor_where_a_store_has_large_chunks(memory in 80_000_000u64..1_000_000_000, micros in 0.0f64..200.0) {
            let stored = |slow| Request { storage_chunks: Some(vec![100; 3]), ..request(memory, slow) };
            let seconds = |slow| match recommend(&stored(slow), &law) {
                Ok(Answer::Plan(plan)) => plan.predicted_seconds,
                other => panic!("a plan was expected: {other:?}"),
            };
            prop_assert!(seconds(swap(3_000_000_000, micros)) <= seconds(None));
        }
    }
}
