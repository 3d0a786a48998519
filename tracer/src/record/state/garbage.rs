//! Garbage collections, what they freed, and when to request another one (`--gc`).

use super::curve::{Curve, Steps};
use super::sparse::Sparse;

/// What `--gc` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collecting {
    /// Watch what the program's own collections free; change nothing.
    Observe,
    /// Collect as well, whenever there may be garbage.
    Eager,
}

impl Collecting {
    /// As the recorder, `meta.json` and the command line have it.
    pub fn name(self) -> &'static str {
        match self {
            Collecting::Observe => "observe",
            Collecting::Eager => "eager",
        }
    }
}

/// A block that a collection freed, or may have.
#[derive(Debug, Clone, Copy)]
pub struct Freed {
    /// Stamp of its allocation.
    pub alloc: u64,
    /// The thread that allocated it.
    pub thread: u32,
    /// What it counts for in the live bytes of its process.
    pub live: u64,
    /// What it counts for in those of its spans.
    pub bytes: u64,
    /// The innermost span that allocated it.
    pub span: Option<u32>,
}

/// A collection that is under way.
struct Running {
    thread: u32,
    begin: u64,
    freed: Vec<Freed>,
}

/// A collection that has ended.
pub struct Collection {
    /// What it freed.
    pub freed: Vec<Freed>,
    /// Before this, none of that was garbage: an earlier collection would have freed it.
    pub since: u64,
    /// It examined everything: nothing that is left was garbage at this time.
    pub complete_at: Option<u64>,
    /// It was none: the process ended, and what it freed may have been garbage or not.
    pub guessed: bool,
}

/// The collector of one process.
#[derive(Default)]
struct Collector {
    curve: Curve,
    /// There is one: a mark was seen.
    watched: bool,
    /// Begin of the last collection that examined everything, or of the process.
    since: u64,
    running: Option<Running>,
    /// Released since the interpreter began to shut down: whether it was garbage is not known.
    undecided: Option<Vec<Freed>>,
    ended: bool,
    collections: u64,
    ticks: u64,
    /// When a collection was requested that has not come yet.
    requested: Option<u64>,
    /// No collection is requested before this.
    rest_until: u64,
    /// [`CREDIT_NS`] and [`GIVE_UP_NS`] in the clock's ticks.
    credit: u64,
    give_up: u64,
    /// Steps are as many times larger, because collections freed nothing.
    stretch: u64,
}

/// The smallest step, and how much of the lower bound a step is.
const STEP_MIN: u64 = 1 << 20;
const STEPS: u64 = 50;
/// The most that collections which free nothing stretch a step.
const STRETCH_MAX: u64 = 4;
/// A collection that was requested costs this many times its length, in which no other is
/// requested: all of them together take a fifth of the time.
const COST: u64 = 5;
/// That time may lie this far back: a program that has just started has not collected yet. In
/// nanoseconds.
const CREDIT_NS: u64 = 250_000_000;
/// After this time a collection that was requested and has not come is requested again. In
/// nanoseconds.
const GIVE_UP_NS: u64 = 1_000_000_000;

impl Collector {
    fn step(&self) -> u64 {
        (self.curve.lower() / STEPS).max(STEP_MIN)
    }
}

/// The collectors of all processes.
#[derive(Default)]
pub struct Garbage {
    collectors: Sparse<Collector>,
    /// All processes together.
    total: Curve,
}

/// What is known of a process in the end.
pub struct Known {
    /// Lower bound of the peak of live bytes that were no garbage.
    pub lower: u64,
    /// Known garbage among live bytes at their peak.
    pub at_peak: u64,
    /// Collections seen, and how long they took in the clock's ticks.
    pub collections: (u64, u64),
}

impl Garbage {
    /// A process that began at `stamp`; they come in the order of their indices. `ticks` converts
    /// nanoseconds.
    pub fn process(&mut self, stamp: u64, ticks: impl Fn(u64) -> u64) {
        self.collectors.push(Collector {
            since: stamp,
            rest_until: stamp,
            credit: ticks(CREDIT_NS),
            give_up: ticks(GIVE_UP_NS),
            stretch: 1,
            ..Default::default()
        });
    }

    /// The spans of blocks that may yet turn out to be garbage.
    pub fn spans(&self) -> impl Iterator<Item = u32> {
        let freed = self.collectors.values().flat_map(|each| {
            let running = each.running.iter().flat_map(|running| &running.freed);
            running.chain(each.undecided.iter().flatten())
        });
        freed.filter_map(|freed| freed.span)
    }

    /// A process leaves.
    pub fn retire(&mut self, process: u32) {
        self.collectors.remove(process);
    }

    /// Live bytes of a process and of all have grown.
    #[inline]
    pub fn note(&mut self, process: u32, stamp: u64, live: u64, total: u64) {
        self.collectors[process].curve.note(stamp, live);
        self.total.note(stamp, total);
    }

    /// A collector is there, or (`watched` is false) its interpreter begins to shut down.
    pub fn collector(&mut self, process: u32, watched: bool) {
        let collector = &mut self.collectors[process];
        collector.watched = true;
        if !watched {
            collector.undecided.get_or_insert_default();
        }
    }

    /// A collection begins.
    pub fn begin(&mut self, process: u32, thread: u32, stamp: u64) {
        let collector = &mut self.collectors[process];
        collector.watched = true;
        collector.running = Some(Running { thread, begin: stamp, freed: Vec::new() });
    }

    /// A thread released a block. Garbage is what the collecting thread releases of what was there
    /// before, or came from others since: between the mark of its begin and the collection itself
    /// CPython may let another thread run. What it has allocated itself meanwhile are temporaries
    /// of finalizers.
    #[inline]
    pub fn released(&mut self, process: u32, thread: u32, block: Freed) {
        let collector = &mut self.collectors[process];
        match &mut collector.running {
            Some(running)
                if running.thread == thread && (block.alloc < running.begin || block.thread != thread) =>
            {
                running.freed.push(block)
            }
            _ => {
                if let Some(undecided) = &mut collector.undecided {
                    undecided.push(block);
                }
            }
        }
    }

    /// A collection ended; `None` if its begin was not seen.
    pub fn end(&mut self, process: u32, thread: u32, stamp: u64, full: bool) -> Option<Collection> {
        let collector = &mut self.collectors[process];
        let running = collector.running.take_if(|running| running.thread == thread)?;
        let (since, took) = (collector.since, stamp.saturating_sub(running.begin));
        collector.collections += 1;
        collector.ticks += took;
        let complete_at = full.then_some(running.begin);
        if full {
            collector.since = running.begin;
            if collector.requested.take().is_some() {
                let credit = stamp.saturating_sub(collector.credit);
                collector.rest_until = collector.rest_until.max(credit) + COST * took;
            }
            let freed: u64 = running.freed.iter().map(|block| block.live).sum();
            collector.stretch =
                if freed < collector.step() / 2 { (collector.stretch * 2).min(STRETCH_MAX) } else { 1 };
            if let Some(undecided) = &mut collector.undecided {
                undecided.clear();
            }
        }
        Some(Collection { freed: running.freed, since, complete_at, guessed: false })
    }

    /// The process has ended with `left` live. What no collection has examined since may have been
    /// garbage.
    pub fn process_ended(
        &mut self,
        process: u32,
        stamp: u64,
        left: impl Iterator<Item = Freed>,
    ) -> Collection {
        let collector = &mut self.collectors[process];
        let mut freed = collector.undecided.take().unwrap_or_default();
        freed.extend(collector.running.take().into_iter().flat_map(|running| running.freed));
        if collector.watched {
            freed.extend(left);
        }
        collector.ended = true;
        Collection { freed, since: collector.since, complete_at: Some(stamp), guessed: true }
    }

    /// Lets the bounds of the process and of all processes know what a collection freed.
    pub fn settle(&mut self, process: u32, collection: &Collection) {
        let steps = Steps::new(collection.freed.iter().map(|block| (block.alloc, block.live)));
        let collector = &mut self.collectors[process];
        let known = !collection.guessed;
        collector.curve.settle(&steps, collection.since, known);
        self.total.settle(&steps, collection.since, known);
        if let Some(stamp) = collection.complete_at {
            collector.curve.close(stamp);
            let others = self.collectors.values().filter(|each| each.watched && !each.ended);
            self.total.close(others.map(|each| each.since).min().unwrap_or(stamp));
        }
    }

    /// True if the process is to collect now: it may have garbage of more than a step.
    pub fn is_wanted(&self, process: u32, live: u64, now: u64) -> bool {
        let collector = &self.collectors[process];
        let enough = collector.curve.lower() + collector.step() * collector.stretch;
        // What was requested may never come: gc.collect() returns at once while another collection
        // runs.
        let waits = collector.requested.is_some_and(|requested| now < requested + collector.give_up);
        live > enough && now >= collector.rest_until && !waits && !collector.ended
    }

    /// It was requested to.
    pub fn requested(&mut self, process: u32, now: u64) {
        self.collectors[process].requested = Some(now);
    }

    /// Bounds of all processes together.
    pub fn total(&self) -> &Curve {
        &self.total
    }

    /// What is known of a process.
    pub fn known(&self, process: u32) -> Known {
        let collector = &self.collectors[process];
        Known {
            lower: collector.curve.lower(),
            at_peak: collector.curve.garbage_at_peak(),
            collections: (collector.collections, collector.ticks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn garbage(processes: usize) -> Garbage {
        let mut garbage = Garbage::default();
        (0..processes).for_each(|_| garbage.process(0, |ns| ns));
        garbage
    }

    fn block(alloc: u64, bytes: u64) -> Freed {
        Freed { alloc, thread: 1, live: bytes, bytes, span: None }
    }

    /// A complete collection of `process` by thread 1 that frees `blocks`.
    fn collect(garbage: &mut Garbage, process: u32, begin: u64, end: u64, blocks: &[Freed]) {
        garbage.begin(process, 1, begin);
        blocks.iter().for_each(|block| garbage.released(process, 1, *block));
        let collection = garbage.end(process, 1, end, true).unwrap();
        garbage.settle(process, &collection);
    }

    fn end(garbage: &mut Garbage, process: u32, stamp: u64, left: &[Freed]) {
        let collection = garbage.process_ended(process, stamp, left.iter().copied());
        garbage.settle(process, &collection);
    }

    #[test]
    fn only_what_the_collecting_thread_frees_of_what_was_there_before_is_garbage() {
        let mut garbage = garbage(1);
        garbage.note(0, 10, 700, 700);
        garbage.begin(0, 1, 20);
        garbage.released(0, 1, block(5, 100));
        garbage.released(0, 2, block(6, 200));
        garbage.released(0, 1, block(21, 300));
        let collection = garbage.end(0, 1, 30, true).unwrap();
        garbage.settle(0, &collection);
        let known = garbage.known(0);
        assert_eq!((known.lower, known.at_peak, known.collections), (600, 100, (1, 10)));
    }

    #[test]
    fn what_others_allocate_before_a_collection_that_has_begun_gets_to_work_may_be_garbage() {
        let mut garbage = garbage(1);
        garbage.note(0, 10, 700, 700);
        garbage.begin(0, 1, 20);
        garbage.note(0, 22, 1100, 1100);
        garbage.released(0, 1, Freed { thread: 2, ..block(21, 400) });
        let collection = garbage.end(0, 1, 30, true).unwrap();
        garbage.settle(0, &collection);
        end(&mut garbage, 0, 50, &[]);
        assert_eq!(garbage.known(0).lower, 700);
    }

    #[test]
    fn without_a_collector_all_is_in_use_and_with_one_what_is_left_may_be_garbage() {
        let mut garbage = garbage(2);
        garbage.collector(1, true);
        for process in [0, 1] {
            garbage.note(process, 10, 100, 100);
            end(&mut garbage, process, 50, &[block(5, 30)]);
        }
        assert_eq!((garbage.known(0).lower, garbage.known(1).lower), (100, 70));
        assert_eq!(garbage.known(1).at_peak, 0, "a guess is not known");
    }

    #[test]
    fn what_a_shutdown_releases_may_be_garbage_unless_a_complete_collection_follows() {
        for (follows, lower) in [(false, 60), (true, 100)] {
            let mut garbage = garbage(1);
            garbage.collector(0, true);
            garbage.note(0, 10, 100, 100);
            garbage.collector(0, false);
            garbage.released(0, 1, block(5, 40));
            if follows {
                collect(&mut garbage, 0, 20, 21, &[]);
            }
            end(&mut garbage, 0, 50, &[]);
            assert_eq!(garbage.known(0).lower, lower);
        }
    }

    #[test]
    fn the_sum_of_processes_waits_for_the_one_that_collected_first() {
        let mut garbage = garbage(2);
        garbage.collector(0, true);
        garbage.collector(1, true);
        garbage.note(0, 10, 100, 100);
        garbage.note(1, 20, 200, 300);
        collect(&mut garbage, 1, 30, 31, &[block(15, 50)]);
        assert_eq!((garbage.known(1).lower, garbage.total.lower()), (150, 0));
        collect(&mut garbage, 0, 40, 41, &[block(5, 10)]);
        assert_eq!((garbage.known(0).lower, garbage.total.lower()), (90, 240));
    }

    #[test]
    fn requests_once_per_step_and_for_a_fifth_of_the_time() {
        let mut garbage = garbage(1);
        let second = 1_000_000_000;
        garbage.note(0, 1, 100 * MIB, 100 * MIB);
        assert!(garbage.is_wanted(0, 100 * MIB, second));
        garbage.requested(0, second);
        assert!(!garbage.is_wanted(0, 100 * MIB, second + 1), "it has not come yet");
        collect(&mut garbage, 0, 2 * second, 3 * second, &[block(1, 4 * MIB)]);
        assert_eq!(garbage.known(0).lower, 96 * MIB);
        let rested = 3 * second - CREDIT_NS + COST * second;
        assert!(!garbage.is_wanted(0, 200 * MIB, rested - 1), "a second costs five");
        assert!(!garbage.is_wanted(0, 97 * MIB, rested), "less than a step");
        assert!(garbage.is_wanted(0, 98 * MIB, rested));
        garbage.requested(0, rested);
        collect(&mut garbage, 0, rested, rested + 1, &[]);
        assert!(!garbage.is_wanted(0, 98 * MIB, 2 * rested), "nothing was freed: two steps");
        assert!(garbage.is_wanted(0, 100 * MIB, 2 * rested));
        garbage.requested(0, 2 * rested);
        assert!(garbage.is_wanted(0, 100 * MIB, 2 * rested + GIVE_UP_NS), "it never came");
    }
}
