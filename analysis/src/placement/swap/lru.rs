//! What the kernel moves by itself where memory is short: the pages that were used longest ago.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Pages;
use super::steps::{Change, Steps};

/// Pages that are simulated as one, at least.
const LEAST_CHUNK: u64 = 16;
/// Chunks that all objects make together, at most.
const MOST_CHUNKS: u64 = 100_000;

/// Pages that are moved where a program has room for so many of its large blocks' pages.
pub fn moved(steps: &Steps, room: u64) -> Pages {
    let all = steps.pages.iter().fold(0, |sum: u64, pages| sum.saturating_add(*pages));
    let chunk = LEAST_CHUNK.max(all / MOST_CHUNKS);
    let mut lru = Lru { chunk, room: room / chunk, ..Lru::default() };
    // Where it is not known in which parts of a step an object is used, it is used in the first.
    let mut used = HashSet::new();
    for step in &steps.steps {
        if !step.continues {
            used.clear();
        }
        for (object, _) in &step.uses {
            if used.insert(*object) && lru.live.contains(object) {
                lru.touch(*object, steps.pages[*object]);
            }
        }
        for change in &step.changes {
            match *change {
                Change::Allocated(block) => {
                    let object = steps.objects[block];
                    lru.release(object, steps.pages[object]);
                    lru.live.insert(object);
                    used.insert(object);
                    lru.touch(object, steps.pages[object]);
                }
                Change::Released(block) => {
                    let object = steps.objects[block];
                    lru.release(object, steps.pages[object]);
                }
            }
        }
    }
    let Pages { written, back, .. } = lru.moved;
    Pages { written: written * chunk, back: back * chunk, ..Pages::default() }
}

type Chunk = (usize, u64);

#[derive(Default)]
struct Lru {
    /// Pages of a chunk.
    chunk: u64,
    /// Chunks.
    room: u64,
    live: HashSet<usize>,
    now: u64,
    /// Chunks in memory by their last use.
    by_use: BTreeMap<u64, Chunk>,
    /// When a chunk was used; `None`: it is in swap.
    chunks: HashMap<Chunk, Option<u64>>,
    moved: Pages,
}

impl Lru {
    fn touch(&mut self, object: usize, pages: u64) {
        for chunk in 0..pages.div_ceil(self.chunk) {
            self.now += 1;
            match self.chunks.insert((object, chunk), Some(self.now)) {
                Some(Some(before)) => _ = self.by_use.remove(&before),
                Some(None) => self.moved.back += 1,
                None => {}
            }
            self.by_use.insert(self.now, (object, chunk));
            while self.by_use.len() as u64 > self.room.max(1) {
                if let Some((_, oldest)) = self.by_use.pop_first() {
                    self.chunks.insert(oldest, None);
                    self.moved.written += 1;
                }
            }
        }
    }

    fn release(&mut self, object: usize, pages: u64) {
        self.live.remove(&object);
        for chunk in 0..pages.div_ceil(self.chunk) {
            if let Some(Some(used)) = self.chunks.remove(&(object, chunk)) {
                self.by_use.remove(&used);
            }
        }
    }
}
