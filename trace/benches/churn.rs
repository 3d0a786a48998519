//! Rows as the tracer writes them while a program frees and allocates blocks of random slots.

use memtrace_trace::rows::{AllocationRow, Kind, Role};

/// How many call stacks allocate.
const SITES: u64 = 200;
/// Rows of one thread before the next one's turn, as the tracer reads rings.
const TURN: u32 = 2000;
/// Processor clocks advance in steps of about this many nanoseconds.
const TICK_NS: f64 = 10.003;

/// What the program does.
#[derive(Clone, Copy)]
pub struct Churn {
    /// Blocks live at a time, over all threads.
    pub slots: usize,
    /// Threads, each with slots of its own.
    pub threads: u32,
    /// Its blocks belong to spans.
    pub spans: bool,
}

/// Xorshift: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Ticks from one event to the next, as measured: mostly few, at times a cache miss or a page
    /// fault.
    fn ticks(&mut self) -> u64 {
        match self.below(100) {
            0..70 => 2 + self.below(2),
            70..97 => 3 + self.below(10),
            _ => 13 + self.below(30),
        }
    }
}

struct Block {
    ticks: u64,
    bytes: u64,
    site: u64,
    ordinal: u32,
}

impl Churn {
    /// Passes `rows` rows to `each`, in the order of their release within a thread.
    pub fn rows(self, rows: usize, mut each: impl FnMut(AllocationRow)) {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let block = |random: &mut Random, ticks, ordinal| Block {
            ticks,
            bytes: 16 + random.below(501),
            site: random.below(SITES).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ordinal,
        };
        let per_thread = self.slots / self.threads as usize;
        let mut slots: Vec<Block> = (0..per_thread * self.threads as usize)
            .map(|slot| block(&mut random, 0, (slot % per_thread) as u32))
            .collect();
        let mut clocks = vec![0; self.threads as usize];
        let mut ordinals = vec![per_thread as u32; self.threads as usize];
        let ns = |ticks: u64| (ticks as f64 * TICK_NS) as i64;
        for row in 0..rows {
            let thread = row as u32 / TURN % self.threads;
            let clock = &mut clocks[thread as usize];
            let slot = thread as usize * per_thread + random.below(per_thread as u64) as usize;
            *clock += random.ticks();
            let freed = *clock;
            *clock += random.ticks();
            let ordinal = &mut ordinals[thread as usize];
            *ordinal += 1;
            let old = std::mem::replace(&mut slots[slot], block(&mut random, *clock, *ordinal));
            each(AllocationRow {
                process: 0,
                thread,
                kind: Kind::Malloc,
                address: None,
                bytes: old.bytes,
                alloc_ns: ns(old.ticks),
                free_ns: Some(ns(freed)),
                site: Some(old.site),
                ordinal: if self.spans { old.ordinal } else { 0 },
                span: self.spans.then_some(thread),
                role: if self.spans { Role::Temporary } else { Role::None },
                device: None,
            });
        }
    }
}
