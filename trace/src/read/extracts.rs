//! Some columns of tables, for callers that read many traces and need little of each.

use std::collections::{HashMap, HashSet};

use crate::column::{Record, extract};
use crate::error::Result;
use crate::read::pruning;
use crate::read::trace::Trace;
use crate::rows::FrameRow;
use crate::write::Settling;

extract! {
    Timeline,
    /// The memory of a process at one time.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MemorySample {
        /// Index into `processes`.
        pub process: u32,
        /// When.
        pub time_ns: i64,
        /// Heap bytes not yet released.
        pub heap_bytes: u64,
        /// Resident bytes; `None` where they were not sampled.
        pub resident_bytes: Option<u64>,
    }
}

extract! {
    Processes,
    /// What a row of `processes` says of how the other tables are to be read.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Health {
        /// Index of the process.
        pub process: u32,
        /// Events of it that were lost.
        pub lost_events: u64,
        /// The allocator's settings in its environment, where they were recorded.
        pub allocator_settings: Option<String>,
    }
}

extract! {
    KernelEvents,
    /// What `kernel_events` says of one block: an `untouched` row has both numbers.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BlockEvent {
        /// Index of the process.
        pub process: Option<u32>,
        /// When the block was allocated.
        pub time_ns: i64,
        /// What happened.
        pub event: String,
        /// Bytes that were never touched.
        pub bytes: Option<u64>,
        /// Bytes of the block.
        pub value: Option<i64>,
    }
}

extract! {
    Sites,
    /// A site and its innermost frame.
    pub struct Leaf {
        /// The site.
        pub site: u64,
        /// The frame.
        pub frame: u32,
    }
}

extract! {
    Frames,
    /// A frame and its caller.
    pub struct Call {
        /// The frame.
        pub frame: u32,
        /// Its caller.
        pub parent: Option<u32>,
    }
}

impl Settling for Health {
    fn number(&self) -> u32 {
        self.process
    }
}

impl Trace {
    /// What `processes` says of how the other tables are to be read, in the order of their numbers.
    pub fn health(&self) -> Result<Vec<Health>> {
        self.settling()
    }

    /// What `timeline` says of the time until `until_ns`, that included, in the order of its rows.
    pub fn samples_until(&self, until_ns: i64) -> Result<Vec<MemorySample>> {
        let begins = |group: &_| pruning::times(group, "time_ns").is_none_or(|(first, _)| first <= until_ns);
        self.kept(&MemorySample::names(), begins, |row: &MemorySample| row.time_ns <= until_ns)
    }

    /// Bytes that were never touched of blocks of 1 MiB and more, by process, time of the allocation,
    /// and bytes of the block; of several that are alike, the least.
    pub fn untouched_blocks(&self) -> Result<HashMap<(u32, i64, u64), u64>> {
        let wanted = |row: &BlockEvent| row.event == "untouched";
        let rows: Vec<BlockEvent> = self.kept(&BlockEvent::names(), |_| true, wanted)?;
        let mut untouched: HashMap<(u32, i64, u64), u64> = HashMap::new();
        for row in rows {
            let (Some(process), Some(bytes), Some(of)) = (row.process, row.bytes, row.value) else {
                continue;
            };
            let known = untouched.entry((process, row.time_ns, of.max(0) as u64)).or_insert(bytes);
            *known = bytes.min(*known);
        }
        Ok(untouched)
    }

    /// The innermost frame of each of these sites; a site that the trace does not have is left out.
    pub fn leaves(&self, sites: &HashSet<u64>) -> Result<HashMap<u64, u32>> {
        if sites.is_empty() {
            return Ok(HashMap::new());
        }
        let mut leaves = HashMap::new();
        self.each_record(|leaf: Leaf| {
            if sites.contains(&leaf.site) {
                leaves.insert(leaf.site, leaf.frame);
            }
        })?;
        Ok(leaves)
    }

    /// The frames of the call stacks whose innermost frames these are, by number.
    ///
    /// A frame's callers come before it; where they do not, the table is damaged and the stack
    /// ends.
    pub fn frames_of(&self, leaves: impl IntoIterator<Item = u32>) -> Result<HashMap<u32, FrameRow>> {
        let mut leaves = leaves.into_iter().peekable();
        if leaves.peek().is_none() {
            return Ok(HashMap::new());
        }
        let calls = |call: &Call| call.parent.is_some_and(|parent| parent < call.frame);
        let calls: Vec<Call> = self.kept(&Call::names(), |_| true, calls)?;
        let parents: HashMap<u32, u32> =
            calls.into_iter().filter_map(|call| Some((call.frame, call.parent?))).collect();
        let mut wanted = HashSet::new();
        for leaf in leaves {
            let mut next = Some(leaf);
            while let Some(frame) = next.filter(|frame| wanted.insert(*frame)) {
                next = parents.get(&frame).copied();
            }
        }
        let frames = self.rows_of(&wanted)?;
        Ok(frames.into_iter().map(|row: FrameRow| (row.frame, row)).collect())
    }
}
