//! The JSON report of a trace, as types: `docs/schemas/report.schema.json` is made
//! from them.
//!
//! Sizes are bytes; times are seconds since the trace started, durations seconds.

mod accesses;
mod device;
mod operator;
mod process;
mod several;
mod site;

use std::collections::BTreeMap;

use memtrace_trace::{Rows, Share, Totals};
use schemars::JsonSchema;
use serde::Serialize;

pub use accesses::{Accesses, RetainedButUnused, TimedSite, Times, Unused, UnusedSite};
pub use device::Device;
pub use operator::{DataDependent, MinMax, Operator, Span};
pub use process::{Process, ProcessResident, ResidentParts};
pub use several::{Node, OperatorOfRanks, Rank, RankName, Ranks, Several, Spread};
pub use site::{DeviceSite, PlaceAtPeak, Site, Untouched, UntouchedSite};

/// What `memtrace report --json` prints and `Trace.report()` returns.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Version of the trace format.
    pub schema_version: u32,
    /// The recorded command and its arguments.
    pub command: Vec<String>,
    /// Exit status of the command (128+N for signal N); null if it was not seen to end.
    pub exit: Option<i32>,
    /// True if the recording was closed in order.
    pub complete: bool,
    /// Length of the recording.
    pub seconds: f64,
    /// Peaks over the whole recording.
    pub peak: Peak,
    /// Sums over all processes.
    pub totals: Totals,
    /// What the recording lost.
    pub lost: Lost,
    /// What was recorded, by name: `stacks`, `kernel`, `gc`, …
    pub recorded: BTreeMap<String, String>,
    /// Events of the kernel side for which there was no room.
    pub lost_kernel_events: u64,
    /// Sampled memory accesses; null if none were requested.
    pub accesses: Option<Accesses>,
    /// Samples of page faults and accesses for which there was no room.
    pub lost_samples: u64,
    /// Processes that the kernel killed for lack of memory.
    pub out_of_memory: Vec<OutOfMemory>,
    /// Calls that were refused memory: the first few of each process.
    pub refused: Vec<Refused>,
    /// Which blocks have no row of their own.
    pub rows: Rows,
    /// Sentences on what could not be seen.
    pub notes: Vec<String>,
    /// One for each process image.
    pub processes: Vec<Process>,
    /// The ranks next to each other; null if fewer than two processes have one.
    pub ranks: Option<Ranks>,
    /// One for each process and device.
    pub devices: Vec<Device>,
    /// The operator with the largest working peak first.
    pub operators: Vec<Operator>,
    /// What the peak of live bytes was made of, as the summary shows it: the largest first, at most
    /// 100. What is missing to the peak has no call stack.
    pub places: Vec<PlaceAtPeak>,
    /// Call stacks with most live bytes at the peak, at most 1,000.
    pub sites: Vec<Site>,
    /// Call stacks with most used bytes of devices at their peak, at most 1,000.
    pub device_sites: Vec<DeviceSite>,
    /// Requested memory that the program never touched; null without the kernel side.
    pub untouched: Option<Untouched>,
}

/// Peaks over the whole recording.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Peak {
    /// Of the sum of live bytes over all processes.
    pub live_bytes: u64,
    /// Of the sum of heap bytes over all processes.
    pub heap_bytes: u64,
    /// What of `live_bytes` were heap bytes; the rest are touched mappings.
    pub heap_bytes_at_peak: u64,
    /// Of the mappings of any one process, touched or not.
    pub mapped_bytes: u64,
    /// Of the resident size of any one process.
    pub resident_bytes: u64,
    /// Of the sampled sum of resident sizes over all processes.
    pub resident_sum_bytes: u64,
    /// Lower bound of the live peak without garbage; null if garbage was not tracked (`--gc`).
    pub gc_independent_bytes: Option<u64>,
    /// Its upper bound; the live peak if garbage was not tracked.
    pub gc_independent_upper_bytes: u64,
    /// Known garbage among the live bytes at their peak.
    pub garbage_at_peak_bytes: Option<u64>,
    /// Of the sum of driver bytes over all devices; null if no process used a device.
    pub device_driver_bytes: Option<u64>,
    /// The same of used bytes.
    pub device_used_bytes: Option<u64>,
    /// When live bytes peaked.
    pub seconds: f64,
}

/// What the recording lost.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Lost {
    /// Events that were dropped because a ring was full or unavailable.
    pub events: u64,
    /// Events that arrived after later ones had been merged.
    pub late_events: u64,
    /// Releases of blocks whose allocation was not seen.
    pub unseen_releases: u64,
}

/// A process that the kernel killed because its control group, or the machine, was out of memory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OutOfMemory {
    /// Process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// Live bytes when it was killed.
    pub live_bytes: u64,
    /// Resident bytes when they were last sampled before.
    pub resident_bytes: u64,
    /// Limit of its control group, if that has one.
    pub limit_bytes: Option<u64>,
    /// Live bytes by operator, most first.
    pub operators: Vec<Share>,
    /// Live bytes by call stack, most first.
    pub sites: Vec<SiteShare>,
}

/// A call that was refused memory: `malloc` returned NULL, `mmap` failed with ENOMEM.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Refused {
    /// Process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// When.
    pub seconds: f64,
    /// How much it requested.
    pub requested_bytes: u64,
    /// Its place in the program; null if its call stack was not recorded.
    pub place: Option<String>,
    /// The process's limit on address space (RLIMIT_AS), if it had one.
    pub limit_bytes: Option<u64>,
    /// Live bytes then.
    pub live_bytes: u64,
    /// Live bytes by operator, most first.
    pub operators: Vec<Share>,
    /// Live bytes by call stack, most first.
    pub sites: Vec<SiteShare>,
}

/// Bytes of one call stack.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SiteShare {
    /// Id in the table `sites`.
    pub site: u64,
    /// Its place in the program.
    pub place: Option<String>,
    /// Its bytes.
    pub bytes: u64,
}
