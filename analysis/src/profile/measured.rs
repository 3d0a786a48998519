//! What was measured next to the runs: the memory of a process before them, and what their first
//! call left behind.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use memtrace_trace::Trace;
use memtrace_trace::rows::{ArrayInfo, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::run::{Block, Event, Run};

/// How many of the one-time blocks are named.
const NAMED_BLOCKS: usize = 8;

/// Blocks that a process keeps from the first call on, however often the operator runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct OneTime {
    /// Their sum, without what was never touched of them; the largest over the processes.
    pub bytes: u64,
    /// The same with what was never touched: the working peak of a first call has it.
    #[serde(default)]
    pub allocated_bytes: u64,
    /// The biggest of them.
    #[serde(default)]
    pub blocks: Vec<OneTimeBlock>,
}

impl OneTime {
    /// Takes the larger figures of both.
    pub(crate) fn join(&mut self, other: &OneTime) {
        let allocated_bytes = self.allocated_bytes.max(other.allocated_bytes);
        if other.bytes > self.bytes {
            self.clone_from(other);
        }
        self.allocated_bytes = allocated_bytes;
    }
}

/// One such block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OneTimeBlock {
    /// The call that made it: `malloc`, `map_anonymous`, …
    pub kind: String,
    /// Bytes.
    pub bytes: u64,
}

/// Memory of the process just before its first span: of the recording whose inputs are smallest, for
/// they may be part of it; the largest over its processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// Heap bytes.
    pub heap_bytes: u64,
    /// Resident bytes, where they were sampled.
    pub resident_bytes: Option<u64>,
}

/// By process, its memory just before its first span began.
pub(super) fn baselines(
    trace: &Trace,
    first: &HashMap<u32, i64>,
) -> memtrace_trace::Result<HashMap<u32, Baseline>> {
    let Some(&latest) = first.values().max() else { return Ok(HashMap::new()) };
    let mut last: HashMap<u32, (i64, Baseline)> = HashMap::new();
    for row in trace.samples_until(latest)? {
        let before = first.get(&row.process).is_some_and(|&start| row.time_ns <= start);
        let newer = last.get(&row.process).is_none_or(|(time, _)| *time <= row.time_ns);
        if before && newer {
            let baseline = Baseline { heap_bytes: row.heap_bytes, resident_bytes: row.resident_bytes };
            last.insert(row.process, (row.time_ns, baseline));
        }
    }
    Ok(last.into_iter().map(|(process, (_, baseline))| (process, baseline)).collect())
}

/// What a process's calls of one operator say of the first one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FirstCall {
    /// Operator.
    pub operator: String,
    /// Process.
    pub process: u32,
    /// Inputs of the first call.
    pub inputs: Arc<[ArrayInfo]>,
    /// The largest sum of a call's inputs, bytes.
    pub most_input_bytes: u64,
    /// What the first call left behind that is not its output and that no later one allocates
    /// again, as far as the calls after it and those of the sample show; `None` of a single call, for
    /// a second one must confirm what is not allocated again.
    pub one_time: Option<OneTime>,
}

/// One for each operator and process, from runs in the order of the calls.
pub(super) fn first_calls(runs: &[Run]) -> Vec<FirstCall> {
    let mut groups: BTreeMap<(u32, &str), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        groups.entry((run.span.process, &run.span.operator)).or_default().push(run);
    }
    let of_group = |((process, operator), runs): ((u32, &str), Vec<&Run>)| FirstCall {
        operator: operator.to_owned(),
        process,
        inputs: Arc::clone(&runs[0].span.inputs),
        most_input_bytes: runs.iter().map(|run| run.span.input_bytes).max().unwrap_or(0),
        one_time: (runs.len() > 1 && runs[0].span.call == 0).then(|| one_time(runs[0], &runs[1..])),
    };
    groups.into_iter().map(of_group).collect()
}

fn one_time(first: &Run, later: &[&Run]) -> OneTime {
    let again: HashSet<(Kind, u64)> =
        later.iter().flat_map(|run| &run.program.blocks).map(|block| (block.kind, block.bytes)).collect();
    let mut left: BTreeMap<usize, Block> = first.program.blocks.iter().copied().enumerate().collect();
    for event in &first.program.events {
        if let Event::Free(block) = event {
            left.remove(block);
        }
    }
    let mut blocks: Vec<Block> = left.into_values().collect();
    blocks.retain(|block| !block.output && !again.contains(&(block.kind, block.bytes)));
    blocks.sort_by_key(|block| std::cmp::Reverse(touched(block)));
    let named = blocks.iter().take(NAMED_BLOCKS);
    OneTime {
        bytes: blocks.iter().map(touched).fold(0, u64::saturating_add),
        allocated_bytes: blocks.iter().map(|block| block.bytes).fold(0, u64::saturating_add),
        blocks: named
            .map(|block| OneTimeBlock { kind: block.kind.to_string(), bytes: touched(block) })
            .collect(),
    }
}

/// What was touched of a block: allocators reserve more than they use.
fn touched(block: &Block) -> u64 {
    block.bytes.saturating_sub(block.untouched)
}
