//! Sampled memory accesses.

use schemars::JsonSchema;
use serde::Serialize;

/// What was sampled, and which blocks of the peak were not used after it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Accesses {
    /// Where samples come from: `hardware`, `clock` or `faults`.
    pub source: Option<String>,
    /// Events of the processor that were sampled.
    pub events: Option<String>,
    /// Why there is no better source.
    pub why: Option<String>,
    /// Loads, stores, and accesses of unknown kind; 0 with `clock`, which has figures of its own.
    pub samples: u64,
    /// Of them, samples in a live block.
    pub samples_in_blocks: u64,
    /// Page faults.
    pub first_touches: u64,
    /// Of them, faults in a live block.
    pub first_touches_in_blocks: u64,
    /// Blocks live at the peak that were not used after it; null if no access was sampled, and with
    /// `clock`, which does not show all that is used.
    pub retained_but_unused: Option<RetainedButUnused>,
    /// Where the time of the program's threads went; null if no clock was sampled.
    pub clock: Option<Times>,
}

/// Samples of the time in which threads ran their own code, not the kernel's, and the memory that the
/// instructions touched which took it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Times {
    /// All samples that the trace still has (`--max-trace-size` deletes the oldest).
    pub samples: u64,
    /// Those whose instruction is known.
    pub known: u64,
    /// Those whose instruction touched memory, but for the stack by its pointer.
    pub touching_memory: u64,
    /// Those of them whose address is gone, as in a chain of pointers.
    pub without_address: u64,
    /// Those in live blocks.
    pub in_blocks: u64,
    /// Blocks from this size on are large.
    pub large_from_bytes: u64,
    /// Samples in live blocks that are large.
    pub in_large_blocks: u64,
    /// Samples in live blocks by call stack, most samples first, at most 100.
    pub sites: Vec<TimedSite>,
}

/// Samples in the blocks of one call stack.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimedSite {
    /// Id in the table `sites`; null for blocks without a recorded stack.
    pub site: Option<u64>,
    /// Its place in the program.
    pub place: Option<String>,
    /// Samples.
    pub samples: u64,
    /// Of them, stores.
    pub stores: u64,
    /// The largest block that was met.
    pub largest_block_bytes: u64,
}

/// An estimate, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RetainedButUnused {
    /// The estimate.
    Estimate(Unused),
    /// No estimate.
    Missing {
        /// The reason.
        why: String,
    },
}

/// Blocks that were live at the peak and not used after it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Unused {
    /// True: a block without a sample may have been used.
    pub estimate: bool,
    /// Smaller blocks are left out.
    pub judged_from_bytes: u64,
    /// Accesses sampled after the peak.
    pub samples_after_peak: u64,
    /// Blocks live at the peak.
    pub retained_bytes: u64,
    /// Of them, blocks in which no access was sampled after the peak.
    pub unused_bytes: u64,
    /// Of those, blocks in which no access was sampled at all.
    pub never_accessed_bytes: u64,
    /// The same by call stack, most unused bytes first, at most 100.
    pub sites: Vec<UnusedSite>,
}

/// Unused blocks of one call stack.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UnusedSite {
    /// Id in the table `sites`; null for blocks without a recorded stack.
    pub site: Option<u64>,
    /// Its place in the program.
    pub place: Option<String>,
    /// Blocks.
    pub blocks: u64,
    /// Their bytes.
    pub unused_bytes: u64,
    /// Of them, bytes in which no access was sampled at all.
    pub never_accessed_bytes: u64,
}
