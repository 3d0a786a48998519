//! The course of a run: what it allocates and releases, in order, with or without sizes.

use std::collections::HashMap;

use memtrace_trace::rows::Kind;

use crate::profile::{Block, Event, Program};

/// A sequence of allocations and releases without sizes; blocks are numbered as allocated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Course {
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The call that made each block.
    pub kinds: Vec<Kind>,
}

/// One run seen in a view: its course, and each block's bytes.
#[derive(Debug, Clone, Default)]
pub struct SizedCourse {
    /// The sequence.
    pub course: Course,
    /// Bytes of each block.
    pub bytes: Vec<u64>,
    /// Call stack of each block, where it is known.
    pub sites: Vec<Option<u64>>,
}

impl SizedCourse {
    /// The blocks of a program that are wanted.
    pub(super) fn of(program: &Program, wanted: impl Fn(&Block) -> bool) -> SizedCourse {
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut sized = SizedCourse::default();
        for event in &program.events {
            match *event {
                Event::Alloc(block) if wanted(&program.blocks[block]) => {
                    numbers.insert(block, sized.bytes.len());
                    sized.course.events.push(Event::Alloc(sized.bytes.len()));
                    sized.course.kinds.push(program.blocks[block].kind);
                    sized.bytes.push(program.blocks[block].bytes);
                    sized.sites.push(program.blocks[block].site);
                }
                Event::Free(block) => {
                    sized.course.events.extend(numbers.get(&block).map(|&number| Event::Free(number)));
                }
                Event::Alloc(_) => {}
            }
        }
        sized
    }

    /// The largest live sum of the sequence.
    pub fn peak(&self) -> u64 {
        let (mut live, mut peak) = (0u64, 0);
        for event in &self.course.events {
            match *event {
                Event::Alloc(block) => live = live.saturating_add(self.bytes[block]),
                Event::Free(block) => live = live.saturating_sub(self.bytes[block]),
            }
            peak = peak.max(live);
        }
        peak
    }
}
