//! Runs of operators: what each span allocated and released, in order.

use memtrace_trace::rows::{Kind, SpanRow};
use serde::{Deserialize, Serialize};

/// Blocks below this many bytes are never part of a law's sequence: the lowest of
/// [`crate::law::align`]'s thresholds.
pub const MIN_BYTES: u64 = 4096;

/// Name under which [`super::read`] adds to a span's parameters how many threads its libraries were
/// set to.
pub const THREADS: &str = "memtrace.threads";

/// The parameter in which recorders put Dask's key, chunk and worker: where a call ran, not what.
pub const TASK: &str = "task";

/// The parameter that recorders give a call which ended with an error.
pub const FAILED: &str = "error";

/// Peaks of one shape that are closer than this are taken to be the same: the interpreter's own
/// objects come and go.
const NOISE_BYTES: u64 = 64 << 10;
/// So are those that differ by less than a thousandth.
const NOISE_SHARE: u64 = 1000;

/// One execution of an operator.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Run {
    /// Shapes, parameters, recorded peak.
    pub span: SpanRow,
    /// What it and the spans inside it allocated in the host's memory.
    pub program: Program,
    /// The same on devices.
    pub on_devices: Program,
    /// Used bytes of its process on devices when it began, its inputs left out.
    pub before_on_devices: u64,
}

/// A sequence of allocations and releases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Blocks of at least [`MIN_BYTES`], in the order they were allocated.
    pub blocks: Vec<Block>,
    /// What happened to them, in time order; blocks that outlive the span have no release.
    pub events: Vec<Event>,
}

/// A block a span allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The call that made it.
    pub kind: Kind,
    /// Requested bytes.
    pub bytes: u64,
    /// True if (part of) a result of the span is in it.
    pub output: bool,
    /// Id of the call stack that allocated it, where it was recorded.
    pub site: Option<u64>,
    /// Bytes of it that were never touched, as far as the kernel reported that.
    pub untouched: u64,
}

/// An event; the number is the block's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// Allocated.
    Alloc(usize),
    /// Released.
    Free(usize),
}

impl Run {
    /// Seconds from start to end.
    pub fn seconds(&self) -> f64 {
        let end = self.span.end_ns.unwrap_or(self.span.start_ns);
        end.saturating_sub(self.span.start_ns).max(0) as f64 / 1e9
    }

    /// All of its blocks, wherever they are.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.program.blocks.iter().chain(&self.on_devices.blocks)
    }

    /// What it allocated on devices, at most.
    pub fn device_peak(&self) -> u64 {
        self.span.device_peak_bytes.unwrap_or(0)
    }

    /// The run as if there were no memory but that of devices.
    pub fn of_devices(&self) -> Run {
        let span = SpanRow { working_peak_bytes: self.device_peak(), ..self.span.clone() };
        Run { span, program: self.on_devices.clone(), ..Run::default() }
    }
}

/// True if two peaks of one shape differ by more than noise.
pub fn differ(least: u64, most: u64) -> bool {
    most - least > NOISE_BYTES.max(most / NOISE_SHARE)
}
