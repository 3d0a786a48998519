//! Call stacks.

use schemars::JsonSchema;
use serde::Serialize;

/// A call stack.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Site {
    /// Id in the table `sites`.
    pub site: u64,
    /// Its place in the program.
    pub place: String,
    /// Its frames as text, innermost first; only with `--stacks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<Vec<String>>,
    /// Live bytes at the peak of live bytes.
    pub live_bytes_at_peak: u64,
    /// Its own peak.
    pub peak_live_bytes: u64,
    /// Sum of requested sizes.
    pub requested_bytes: u64,
    /// Blocks allocated.
    pub blocks: u64,
}

/// Where bytes of the peak were allocated, as the summary names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlaceAtPeak {
    /// The place in the program.
    pub place: String,
    /// Its source file, where the line is known.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// Live bytes at the peak of live bytes.
    pub bytes: u64,
    /// What of them is an estimate: call stacks of small blocks are sampled.
    pub estimated_bytes: u64,
}

/// A call stack with memory on devices.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeviceSite {
    /// Id in the table `sites`.
    pub site: u64,
    /// Its place in the program.
    pub place: String,
    /// Its frames as text, innermost first; only with `--stacks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<Vec<String>>,
    /// Used bytes of devices at their peak.
    pub device_bytes_at_peak: Option<u64>,
}

/// Parts of large blocks that the program never touched.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Untouched {
    /// Blocks with such parts.
    pub blocks: u64,
    /// Their sizes.
    pub of_bytes: u64,
    /// Untouched bytes.
    pub bytes: u64,
    /// The same by call stack, most first.
    pub sites: Vec<UntouchedSite>,
}

/// Untouched parts of the blocks of one call stack.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UntouchedSite {
    /// Id in the table `sites`.
    pub site: u64,
    /// Its place in the program.
    pub place: String,
    /// Its frames as text, innermost first; only with `--stacks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<Vec<String>>,
    /// Blocks with such parts.
    pub blocks: u64,
    /// Their sizes.
    pub of_bytes: u64,
    /// Untouched bytes.
    pub bytes: u64,
}
