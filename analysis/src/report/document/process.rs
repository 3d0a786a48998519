//! Processes and what their resident memory was made of.

use schemars::JsonSchema;
use serde::Serialize;

/// A process image: an `exec` starts a new one.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Command line.
    pub command: String,
    /// Name of the machine.
    pub host: String,
    /// Id of its job, with that of its task in an array; null outside of jobs.
    pub job: Option<String>,
    /// Its MPI rank, or that in a step of a scheduler; null if it has none.
    pub rank: Option<u32>,
    /// `exec` or `fork`.
    pub origin: String,
    /// Exit status, known for the recorded command itself.
    pub exit: Option<i32>,
    /// Peak of live bytes: heap and the touched part of own mappings.
    pub peak_live_bytes: u64,
    /// Peak of heap bytes.
    pub peak_heap_bytes: u64,
    /// Peak of own mappings, touched or not.
    pub peak_mapped_bytes: u64,
    /// Peak resident size without the probe's rings; 0 if it was never sampled.
    pub peak_resident_bytes: u64,
    /// What that was made of; null without the kernel side.
    pub resident_at_peak: Option<ProcessResident>,
    /// Page faults; null without the kernel side.
    pub page_faults: Option<u64>,
    /// Bytes of page tables.
    pub page_table_bytes: Option<u64>,
    /// Settings of the C library's allocator in the environment.
    pub allocator_settings: Option<String>,
    /// Resident bytes of the probe's rings, which are subtracted everywhere.
    pub probe_bytes: u64,
    /// Blocks allocated.
    pub allocations: u64,
    /// Sum of their requested sizes.
    pub requested_bytes: u64,
    /// Events that were dropped.
    pub lost_events: u64,
    /// Releases of blocks inherited over `fork`.
    pub inherited_releases: u64,
    /// Releases of blocks whose allocation was not seen.
    pub unseen_releases: u64,
    /// Blocks allocated by threads in no span while other threads were in one.
    pub unattributed_allocations: u64,
    /// Sum of their sizes.
    pub unattributed_bytes: u64,
    /// Lower bound of the live peak without garbage; null if garbage was not tracked (`--gc`).
    pub gc_independent_bytes: Option<u64>,
    /// Its upper bound.
    pub gc_independent_upper_bytes: Option<u64>,
    /// Known garbage among the live bytes at their peak.
    pub garbage_at_peak_bytes: Option<u64>,
    /// Garbage collections.
    pub collections: u64,
    /// Time they took.
    pub collect_seconds: f64,
    /// The same as a part of the process's time; null if it was not seen to end.
    pub collect_share: Option<f64>,
    /// When it started.
    pub start_seconds: f64,
    /// When it ended; null if it outlived the recording.
    pub end_seconds: Option<f64>,
}

/// What the resident memory of a process was made of at its peak.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProcessResident {
    /// The parts.
    #[serde(flatten)]
    pub parts: ResidentParts,
    /// When it peaked.
    pub seconds: Option<f64>,
}

/// What resident memory was made of.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ResidentParts {
    /// Anonymous and shared memory.
    pub memory_bytes: u64,
    /// Pages of files: code, libraries, mapped files.
    pub file_bytes: u64,
    /// Live bytes then.
    pub live_bytes: Option<u64>,
    /// Of them, bytes that the program had not touched.
    pub untouched_bytes: Option<u64>,
    /// Own mappings then, touched or not.
    pub mapped_bytes: Option<u64>,
    /// Stack of the first thread.
    pub stack_bytes: Option<u64>,
    /// Variables of the executable and its libraries.
    pub data_bytes: Option<u64>,
    /// The rest: what allocators keep, and stacks of other threads. Negative if less was touched
    /// than is known of.
    pub unexplained_bytes: Option<i64>,
}
