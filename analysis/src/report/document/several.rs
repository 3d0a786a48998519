//! Ranks next to each other, and several traces in one picture.

use std::sync::Arc;

use memtrace_trace::Totals;
use memtrace_trace::rows::ArrayInfo;
use schemars::JsonSchema;
use serde::Serialize;

use super::Lost;

/// What `memtrace report --json` prints of a directory of traces, and `Traces.report()` returns.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Several {
    /// Traces that were read.
    pub traces: u64,
    /// Of them, those that were not closed in order.
    pub incomplete: u64,
    /// Of them, those whose command was not seen to end, or ended with another status than 0.
    pub failed: u64,
    /// Traces that could not be read.
    pub unreadable: u64,
    /// Why, of the first hundred of them.
    pub unreadable_why: Vec<String>,
    /// From the start of the first recording to the end of the last.
    pub seconds: f64,
    /// Sums over all traces.
    pub totals: Totals,
    /// What all recordings together lost.
    pub lost: Lost,
    /// The machines, by name.
    pub nodes: Vec<Node>,
    /// The ranks. A trace that has none counts as one.
    pub ranks: Ranks,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Node {
    /// Its name.
    pub host: String,
    /// All its memory; null if that is not known.
    pub memory_bytes: Option<u64>,
    /// Traces that were recorded on it.
    pub traces: u64,
    /// Resident bytes that the recorded processes had at one time, at most: the sum of the resident
    /// peaks of traces that were recorded at the same time.
    pub resident_at_most_bytes: u64,
}

/// Ranks next to each other.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ranks {
    /// Their peaks of live bytes.
    pub peak_live: Spread,
    /// Their resident peaks.
    pub peak_resident: Spread,
    /// Those with the largest peaks of live bytes, at most 1,000.
    pub largest: Vec<Rank>,
    /// Their operators, that with the largest working peak first.
    pub operators: Vec<OperatorOfRanks>,
}

/// What several ranks had.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// How many ranks.
    pub ranks: u64,
    /// The least of any rank.
    pub min_bytes: u64,
    /// All together, divided by the number of ranks.
    pub mean_bytes: u64,
    /// The most of any rank.
    pub max_bytes: u64,
    /// All together.
    pub sum_bytes: u64,
    /// The first rank that had the most.
    pub largest: RankName,
}

/// Which rank.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct RankName {
    /// Its trace.
    pub trace: String,
    /// The machine it ran on.
    pub host: String,
    /// Its job; null outside of jobs.
    pub job: Option<String>,
    /// Its rank; null of a trace without ranks.
    pub rank: Option<u32>,
}

/// One rank.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Rank {
    /// Which.
    #[serde(flatten)]
    pub name: RankName,
    /// Peak of live bytes of the largest of its processes; of a trace without ranks, of all
    /// processes together.
    pub peak_live_bytes: u64,
    /// Resident peak, likewise.
    pub peak_resident_bytes: u64,
    /// Blocks allocated.
    pub allocations: u64,
    /// Sum of their requested sizes.
    pub requested_bytes: u64,
}

/// An operator over all ranks that ran it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OperatorOfRanks {
    /// `module:function`, or the name that the program gave.
    pub name: String,
    /// Calls of all ranks.
    pub calls: u64,
    /// How long those that ended took, together.
    pub seconds: f64,
    /// The largest working peak of each rank.
    pub working_peak: Spread,
    /// Inputs of the call with the largest working peak.
    pub inputs: Arc<[ArrayInfo]>,
}
