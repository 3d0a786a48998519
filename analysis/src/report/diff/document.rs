//! The difference of two traces, as types: `docs/schemas/diff.schema.json` is made from them.

use schemars::JsonSchema;
use serde::Serialize;

/// What `memtrace diff --json` prints. Lists begin with what changed most.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Diff {
    /// The first trace.
    pub before: Side,
    /// The second trace.
    pub after: Side,
    /// Figures of the whole recordings.
    pub figures: Vec<Figure>,
    /// Lines of the program.
    pub lines: Lines,
    /// Operators by the shapes of their inputs, those alone that differ.
    pub operators: Vec<Operator>,
    /// Process images, those alone that differ.
    pub processes: Vec<Process>,
    /// Sentences on what makes the two hard to compare.
    pub notes: Vec<String>,
}

/// One of the two traces.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// Its directory.
    pub trace: String,
    /// The recorded command and its arguments.
    pub command: Vec<String>,
    /// True if the recording was closed in order.
    pub complete: bool,
    /// Length of the recording.
    pub seconds: f64,
}

/// A number in both traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Change {
    /// In the first trace; null if there is none.
    pub before: Option<u64>,
    /// In the second trace; null if there is none.
    pub after: Option<u64>,
}

/// A figure of the whole recordings.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// As in `report --json`: of its `peak`, or of its `totals`.
    pub name: String,
    /// `bytes` or `blocks`.
    pub unit: String,
    /// In both traces.
    #[serde(flatten)]
    pub change: Change,
}

/// Lines of the program.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Lines {
    /// Those that differ, at most 1,000.
    pub changed: Vec<SourceLine>,
    /// How many differ and are not listed.
    pub left_out: usize,
    /// How many allocated the same in both traces.
    pub same: usize,
    /// Live bytes at the peak without a call stack.
    pub without_stack: Change,
}

/// A line of the program in both traces.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SourceLine {
    /// The place in the program, in the second trace if it is there.
    pub place: String,
    /// Its source file, where the line is known.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// The place in the first trace, where it has moved or has another name.
    pub was: Option<String>,
    /// Its part of the peak of live bytes.
    pub bytes_at_peak: Change,
    /// What of that is an estimate: call stacks of small blocks are sampled.
    pub estimated_bytes_at_peak: Change,
    /// Sum of the sizes of its blocks.
    pub requested_bytes: Change,
    /// Blocks allocated.
    pub blocks: Change,
}

/// An operator with inputs of one shape, in both traces.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Operator {
    /// `module:function`, or the name that the program gave.
    pub operator: String,
    /// Shapes and types of its inputs.
    pub inputs: String,
    /// Where its largest call had its peak, in the second trace if it is there.
    pub place: Option<String>,
    /// The source file of that place, where the line is known.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// Calls that `report` lists.
    pub calls: Change,
    /// Largest working peak.
    pub working_peak_bytes: Change,
    /// Largest net peak.
    pub net_peak_bytes: Change,
    /// Largest part of a working peak that was gone when the call ended.
    pub temporary_peak_bytes: Change,
    /// Bytes of the outputs of the largest call.
    pub output_bytes: Change,
    /// Largest one-time bytes.
    pub one_time_bytes: Change,
    /// Largest growth of resident memory; both null where it was not seen.
    pub resident_growth_bytes: Change,
    /// Largest peak on devices; both null where none was used.
    pub device_peak_bytes: Change,
}

/// A process image in both traces: the n-th of one program.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Process {
    /// Command line, in the second trace if it is there.
    pub command: String,
    /// Peak of live bytes.
    pub peak_live_bytes: Change,
    /// Peak of heap bytes.
    pub peak_heap_bytes: Change,
    /// Peak of own mappings, touched or not.
    pub peak_mapped_bytes: Change,
    /// Peak resident size; both null where it was not sampled.
    pub peak_resident_bytes: Change,
    /// Blocks allocated.
    pub allocations: Change,
}

impl Change {
    /// Of figures that are there if their owners are.
    pub(super) fn of<T>(before: Option<&T>, after: Option<&T>, figure: impl Fn(&T) -> u64) -> Change {
        Change { before: before.map(&figure), after: after.map(&figure) }
    }

    /// Of figures that may be unknown.
    pub(super) fn of_known<T>(
        before: Option<&T>,
        after: Option<&T>,
        figure: impl Fn(&T) -> Option<u64>,
    ) -> Change {
        Change { before: before.and_then(&figure), after: after.and_then(&figure) }
    }

    /// By how much the second is larger: what is not there counts as none.
    pub fn difference(&self) -> i128 {
        i128::from(self.after.unwrap_or(0)) - i128::from(self.before.unwrap_or(0))
    }

    /// True if the two are the same.
    pub fn is_none(&self) -> bool {
        self.difference() == 0
    }
}

impl SourceLine {
    /// True if it allocated the same in both traces.
    pub(super) fn is_same(&self) -> bool {
        [self.bytes_at_peak, self.requested_bytes, self.blocks].iter().all(Change::is_none)
    }
}

impl Operator {
    /// True if it needed the same in both traces. Resident memory is sampled: what it grew by has
    /// no part in that.
    pub(super) fn is_same(&self) -> bool {
        let exact = [
            self.calls,
            self.working_peak_bytes,
            self.net_peak_bytes,
            self.temporary_peak_bytes,
            self.output_bytes,
            self.one_time_bytes,
            self.device_peak_bytes,
        ];
        exact.iter().all(Change::is_none)
    }
}

impl Process {
    /// True if it needed the same in both traces, resident memory apart.
    pub(super) fn is_same(&self) -> bool {
        let exact = [self.peak_live_bytes, self.peak_heap_bytes, self.peak_mapped_bytes, self.allocations];
        exact.iter().all(Change::is_none)
    }
}
