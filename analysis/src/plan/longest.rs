//! How long an axis may be at most, so that one call stays within memory: the largest batch, the
//! longest sequence.

use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Refusal;
use super::candidate::Law;
use super::device::{self, Bound, DevicePlan};
use super::error::PlanError;
use super::grid::Grid;
use super::request::{Request, Source};
use super::source::Frontier;
use super::why;
use super::worker_bytes::WorkerBytes;
use crate::model::TaskBytes;
use crate::shape::joined;

/// No array has an axis of more elements.
const MOST: u64 = 1 << 48;

/// The longest that fits. Bytes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Longest {
    /// Which axis, from 0.
    pub axis: usize,
    /// Its length.
    pub length: u64,
    /// The whole shape.
    pub shape: Vec<u64>,
    /// The process at its peak: what it has before, one-time bytes, input, and all that the call
    /// allocates.
    pub predicted_worker_bytes: u64,
    /// What it may use.
    pub budget_bytes: u64,
    /// What it needs of its device, if that has a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DevicePlan>,
    /// Which memory keeps longer ones out; null if none does.
    pub bound_by: Option<Bound>,
    /// That in a sentence.
    pub why: String,
}

/// What [`longest`] answers.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Reach {
    /// This long.
    Longest(Box<Longest>),
    /// Not even the shortest fits.
    Refusal(Refusal),
}

/// The longest `axis` of the request's shape, a multiple of `multiple`, at which one call fits;
/// lengths of the other axes are the shape's. Bytes are taken to grow with the length.
///
/// # Errors
/// There is no such axis, or the law fails for every length.
pub fn longest(
    request: &Request,
    axis: usize,
    multiple: u64,
    law: &dyn Fn(&[u64]) -> Result<TaskBytes, crate::error::Error>,
) -> Result<Reach, PlanError> {
    // Arguments of a dry run have no elements.
    let request = &Request { item_bytes: request.item_bytes.max(1), ..request.clone() };
    request.check()?;
    if axis >= request.shape.len() {
        let last = request.shape.len() - 1;
        return Err(PlanError::Request(format!("there is no axis {axis}: the shape has axes 0 to {last}")));
    }
    if multiple == 0 {
        return Err(PlanError::Request("the length must be a multiple of at least 1".into()));
    }
    let at = |times: u64| Call::new(request, axis, times.saturating_mul(multiple), law);
    let first = at(1)?;
    if !first.fits {
        return Ok(Reach::Refusal(first.refusal(request)));
    }
    let fits = |times: u64| times.saturating_mul(multiple) <= MOST && at(times).is_ok_and(|call| call.fits);
    let mut known = 1;
    while fits(2 * known) {
        known *= 2;
    }
    let mut beyond = 2 * known;
    while beyond - known > 1 {
        let middle = known + (beyond - known) / 2;
        if fits(middle) { known = middle } else { beyond = middle }
    }
    Ok(Reach::Longest(Box::new(at(known)?.longest(request, axis, at(beyond).ok().as_ref()))))
}

/// One call at a length.
struct Call {
    shape: Vec<u64>,
    task: TaskBytes,
    worker: WorkerBytes,
    fits: bool,
}

impl Call {
    fn new(request: &Request, axis: usize, length: u64, law: Law) -> Result<Call, PlanError> {
        let mut shape = request.shape.clone();
        shape[axis] = length;
        let task = law(&shape).map_err(PlanError::Law)?;
        let grid = Grid { shape: shape.clone(), chunk: shape.clone(), halo: vec![0; shape.len()] };
        // No other process needs the array.
        let separate = Request {
            shape: shape.clone(),
            source: Source::Storage,
            threads_per_worker: 1,
            ..request.clone()
        };
        let worker = WorkerBytes::of(&separate, &grid, &task, Frontier::AtLeast);
        let fits = device::is_within(request, &worker, request.budget_bytes());
        Ok(Call { shape, task, worker, fits })
    }

    fn refusal(self, request: &Request) -> Refusal {
        let needed = self.worker.peak();
        Refusal {
            budget_bytes: request.budget_bytes(),
            smallest_budget_bytes: needed,
            smallest_memory_limit_bytes: request.limit_for(needed),
            smallest_device_limit_bytes: request.device.map(|_| self.worker.device),
            bound_by: Bound::of(request, &self.worker),
            why: format!(
                "{} of {} does not fit: it needs {}; {}.",
                request.operator,
                joined(&self.shape),
                why::most(request, self.worker),
                why::remedy(request, self.worker),
            ),
            chunk_shape: self.shape,
            waves: None,
        }
    }

    fn longest(self, request: &Request, axis: usize, beyond: Option<&Call>) -> Longest {
        let rules = beyond.filter(|beyond| !beyond.fits);
        let longer = match rules {
            Some(rules) => {
                format!("{} would need {}", rules.shape[axis], why::most(request, rules.worker))
            }
            None => "no length that was tried needs more than there is".to_owned(),
        };
        let why = format!(
            "{} of {} is predicted to need {}; {longer}.{}",
            request.operator,
            joined(&self.shape),
            why::needed(request, self.worker),
            why::unlimited(request, &self.task),
        );
        Longest {
            axis,
            length: self.shape[axis],
            predicted_worker_bytes: self.worker.peak(),
            budget_bytes: request.budget_bytes(),
            device: device::plan(request, &self.task, &self.worker),
            bound_by: rules.map(|rules| Bound::of(request, &rules.worker)),
            why,
            shape: self.shape,
        }
    }
}
