//! What a user gives for chunks of one operator: the command line and Python make their requests of it.

use super::answer::Answer;
use super::compare::BaselineChunks;
use super::device::Bound;
use super::error::PlanError;
use super::extra::Extra;
use super::longest::{Reach, longest};
use super::recommend::{recommend, recommend_workers};
use super::request::{Device, Minimise, Request, Source};
use super::slow::SlowMemory;
use super::workers::Workers;
use crate::model::{Law, predict};

/// Options of a plan; where one is `None`, the law and a worker of Dask have the value.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Memory limit of each worker, bytes.
    pub memory_limit_bytes: u64,
    /// Memory of the device that each worker has to itself, bytes.
    pub device_limit_bytes: Option<u64>,
    /// Worker processes.
    pub workers: Workers,
    /// Threads of each.
    pub threads_per_worker: u64,
    /// Extra cells per face that a chunk needs from its neighbours: one number for each axis, or one for all.
    pub halo: Vec<u64>,
    /// Axes that must stay in one chunk.
    pub whole_axes: Vec<usize>,
    /// Part of the limit that a worker may use.
    pub budget_fraction: Option<f64>,
    /// Resident bytes of a worker before its first task.
    pub baseline_bytes: Option<u64>,
    /// The operator was called before the baseline was measured, so that is what it allocates one time only.
    pub warmed: bool,
    /// What a worker needs for chunks in addition to all that the planner counts for them.
    pub extra: Option<Extra>,
    /// Where a task gets its cells from.
    pub source: Source,
    /// Chunk lengths of the store that the array lies in.
    pub storage_chunks: Option<Vec<u64>>,
    /// Chunks are whole ones of the store.
    pub aligned: bool,
    /// Swap that a worker may take beyond its limit, all of which it may use then.
    pub slow: Option<SlowMemory>,
    /// What to choose by.
    pub minimise: Minimise,
    /// Chunks to compare the plan with.
    pub compare: Option<BaselineChunks>,
}

impl Options {
    /// One worker of one thread under this limit, no halo, and the defaults of the rest.
    pub fn new(memory_limit_bytes: u64) -> Options {
        Options {
            memory_limit_bytes,
            device_limit_bytes: None,
            workers: Workers::Number(1),
            threads_per_worker: 1,
            halo: vec![0],
            whole_axes: Vec::new(),
            budget_fraction: None,
            baseline_bytes: None,
            warmed: false,
            extra: None,
            source: Source::default(),
            storage_chunks: None,
            aligned: false,
            slow: None,
            minimise: Minimise::default(),
            compare: None,
        }
    }

    /// Chunks of an array of this shape for the operator of a law, with what other chunks would need if the options name
    /// some.
    ///
    /// # Errors
    /// [`PlanError::Request`]: the options contradict each other or the array. [`PlanError::Law`]: no chunk can be predicted.
    pub fn recommend(&self, law: &Law, shape: Vec<u64>) -> Result<Answer, PlanError> {
        let request = self.request(law, shape)?;
        let bytes = |shape: &[u64]| law.bytes(shape);
        let mut answer = match self.workers {
            Workers::Number(_) => recommend(&request, &bytes)?,
            Workers::Auto => recommend_workers(&request, &bytes)?,
        };
        if let Answer::Plan(plan) = &mut answer {
            let prediction = predict(law, &plan.block).map_err(PlanError::Law)?;
            plan.confidence = Some(Bound::confidence(plan.bound_by, &prediction).to_owned());
            let by_host = plan.bound_by != Some(Bound::DeviceMemory);
            plan.unverified_because = prediction.unverified_because.filter(|_| by_host);
        }
        if let (Answer::Plan(plan), Some(baseline)) = (&mut answer, &self.compare) {
            let request = Request { workers: plan.workers, ..request };
            plan.compare = Some(baseline.compared(&request, &bytes)?);
        }
        Ok(answer)
    }

    /// How long an axis may be at most for one call of a law's operator in a process of its own, in multiples of `multiple`.
    ///
    /// Only limits, baseline and budget of the options count.
    ///
    /// # Errors
    /// As [`longest`].
    pub fn longest(
        &self,
        law: &Law,
        shape: Vec<u64>,
        axis: usize,
        multiple: u64,
    ) -> Result<Reach, PlanError> {
        let request = Request::in_own_process(law, shape, self.memory_limit_bytes)?;
        let request = Request {
            budget_fraction: self.budget_fraction.unwrap_or(request.budget_fraction),
            baseline_bytes: self.baseline_bytes.unwrap_or(request.baseline_bytes),
            device: self.device(law)?,
            ..request
        };
        longest(&request, axis, multiple, &|shape| law.bytes(shape))
    }

    fn request(&self, law: &Law, shape: Vec<u64>) -> Result<Request, PlanError> {
        let halo = match self.halo[..] {
            [cells] => vec![cells; shape.len()],
            _ => self.halo.clone(),
        };
        let known = Request::of(law, shape, self.memory_limit_bytes)?;
        // What is beyond memory is not killed then but moved.
        let usual = if self.slow.is_some() { 1.0 } else { known.budget_fraction };
        Ok(Request {
            halo,
            whole_axes: self.whole_axes.clone(),
            workers: if let Workers::Number(number) = self.workers { number } else { 1 },
            threads_per_worker: self.threads_per_worker,
            budget_fraction: self.budget_fraction.unwrap_or(usual),
            baseline_bytes: self.baseline_bytes.unwrap_or(known.baseline_bytes),
            one_time_bytes: if self.warmed { 0 } else { known.one_time_bytes },
            extra: self.extra.clone(),
            device: self.device(law)?,
            slow: self.slow,
            source: self.source,
            storage_chunks: self.storage_chunks.clone(),
            aligned: self.aligned,
            minimise: self.minimise,
            ..known
        })
    }

    fn device(&self, law: &Law) -> Result<Option<Device>, PlanError> {
        self.device_limit_bytes.map(|limit| Device::of(law, limit)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ArrayLaw;

    fn law() -> Law {
        let input = ArrayLaw { dtype: "<f4".into(), item_bytes: 4, ..ArrayLaw::default() };
        let mut law = Law { inputs: vec![input], ..Law::default() };
        law.one_time.bytes = 7;
        law
    }

    fn request(options: &Options) -> Request {
        options.request(&law(), vec![30, 40, 50]).expect("a request")
    }

    #[test]
    fn one_number_is_the_halo_of_all_axes() {
        let halo = |halo: &[u64]| request(&Options { halo: halo.to_vec(), ..Options::new(1_000) }).halo;
        assert_eq!(request(&Options::new(1_000)).halo, [0, 0, 0]);
        assert_eq!(halo(&[2]), [2, 2, 2]);
        assert_eq!(halo(&[1, 2, 3]), [1, 2, 3]);
        let short = Options { halo: vec![1, 2], ..Options::new(1_000) };
        let error = short.recommend(&law(), vec![30, 40, 50]).expect_err("too few numbers");
        assert!(error.to_string().contains("the halo has 2 axes"), "{error}");
    }

    #[test]
    fn options_go_before_what_the_law_and_a_worker_of_dask_have() {
        let given = Options {
            budget_fraction: Some(0.5),
            baseline_bytes: Some(11),
            warmed: true,
            workers: Workers::Number(3),
            ..Options::new(1_000)
        };
        let found = request(&given);
        assert_eq!((found.budget_fraction, found.baseline_bytes, found.workers), (0.5, 11, 3));
        assert_eq!(found.one_time_bytes, 0);
        let known = request(&Options::new(1_000));
        assert!(known.baseline_bytes > 100_000_000 && known.budget_fraction < 1.0);
        assert_eq!((known.one_time_bytes, known.workers), (7, 1));
    }

    #[test]
    fn an_operator_without_an_array_has_no_chunks() {
        let error = Options::new(1_000).recommend(&Law::default(), vec![30]).expect_err("no array");
        assert!(error.to_string().contains("takes no array"), "{error}");
    }
}
