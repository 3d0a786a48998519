//! Does a graph, run as it stands, fit a memory limit?

use schemars::JsonSchema;
use serde::Serialize;

use super::Forecast;
use crate::units::{AtLeast, Bytes};

/// A process that would run the graph, and its limit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Fit {
    /// Baseline, one-time bytes and the upper bound of the peak.
    pub process_bytes: u64,
    /// What the process may use.
    pub budget_bytes: u64,
    /// The limit that the budget is a part of.
    pub memory_limit_bytes: u64,
}

/// Nothing fits: the smallest limit that would do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Refusal {
    /// What a process may use as things are.
    pub budget_bytes: u64,
    /// The least it must be allowed to use.
    pub smallest_budget_bytes: u64,
    /// The memory limit of which that budget is the usable part.
    pub smallest_memory_limit_bytes: u64,
    /// What to do, in one sentence.
    pub why: String,
}

/// Whether `budget_fraction` of a limit is enough for a process that has `baseline_bytes` resident
/// before it starts.
///
/// # Errors
/// [`Refusal`]: it is not.
pub fn check(
    forecast: &Forecast,
    limit: u64,
    budget_fraction: f64,
    baseline_bytes: u64,
) -> Result<Fit, Refusal> {
    let process_bytes =
        forecast.upper_bytes.saturating_add(forecast.one_time_bytes).saturating_add(baseline_bytes);
    let budget_bytes = (limit as f64 * budget_fraction) as u64;
    if process_bytes <= budget_bytes {
        return Ok(Fit { process_bytes, budget_bytes, memory_limit_bytes: limit });
    }
    let smallest = (process_bytes as f64 / budget_fraction).ceil() as u64;
    Err(Refusal {
        budget_bytes,
        smallest_budget_bytes: process_bytes,
        smallest_memory_limit_bytes: smallest,
        why: format!(
            "The pipeline needs {} as it is cut, most of it while {} runs, and a process may use {}; raise the \
             memory limit to {} or cut the arrays into smaller chunks.",
            AtLeast(process_bytes),
            forecast.set_by.operator,
            Bytes(budget_bytes),
            AtLeast(smallest),
        ),
    })
}
