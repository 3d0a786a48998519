//! The largest live bytes that were surely no garbage, without replaying events.
//!
//! Over a time in which nothing garbage has been found yet, let live(t) be the bytes that were live
//! and G(t) those of them that the collector frees later on. The bytes wanted are max over t of
//! live(t) − G(t). As long as the collector has not run, G never falls; so of two times the later
//! one can only decide if more was live then. What is kept is therefore the rising sequence of
//! live(t)'s records, each with its time. When the collector has run, the garbage that existed at
//! each of them is subtracted, and what no longer rises goes. Once it has examined everything, no
//! older point can lose any more, and its bytes are a lower bound.

/// A record of live bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Point {
    stamp: u64,
    bytes: u64,
}

/// Points kept at most; beyond, they are thinned to rise by at least 1/2,048 of the last one each.
/// A point that goes is worth at most that much more than the one before it, so all thinning
/// together loses less than 1/1,024 of the largest.
const POINTS_MAX: usize = 4096;

/// Garbage that one collection freed, as a step function: how much of it existed at a time.
#[derive(Debug, Default)]
pub struct Steps {
    /// Times of allocation, and the sum of what was allocated until then.
    steps: Vec<(u64, u64)>,
}

impl Steps {
    /// From (time of allocation, bytes), in any order.
    pub fn new(blocks: impl Iterator<Item = (u64, u64)>) -> Steps {
        let mut steps: Vec<(u64, u64)> = blocks.collect();
        steps.sort_unstable_by_key(|(alloc, _)| *alloc);
        let mut sum = 0;
        for (_, bytes) in &mut steps {
            sum += *bytes;
            *bytes = sum;
        }
        Steps { steps }
    }

    fn first(&self) -> Option<u64> {
        self.steps.first().map(|(alloc, _)| *alloc)
    }

    fn at(&self, stamp: u64) -> u64 {
        let until = self.steps.partition_point(|(alloc, _)| *alloc <= stamp);
        until.checked_sub(1).map_or(0, |last| self.steps[last].1)
    }
}

/// Live bytes of a process, of a span, or of all processes. See the module.
#[derive(Debug, Clone, Default)]
pub struct Curve {
    points: Vec<Point>,
    /// The latest time of all that was noted.
    latest: u64,
    /// How much a point must rise above the last but one to be kept next to it.
    rise: u64,
    /// The largest of the points that can lose no more.
    lower: u64,
    /// The largest live bytes of all, and how much of them is known to have been garbage.
    peak: Point,
    garbage_at_peak: u64,
}

impl Curve {
    /// This much is live from now on; only rises need to be noted. A thread that was stopped
    /// between its stamp and its event is noted late: then `stamp` is before the last one, and
    /// `bytes` are of the latest time.
    #[inline]
    pub fn note(&mut self, stamp: u64, bytes: u64) {
        self.latest = self.latest.max(stamp);
        if bytes > self.points.last().map_or(self.lower, |last| last.bytes) {
            self.push(Point { stamp: self.latest, bytes });
        }
    }

    fn push(&mut self, point: Point) {
        if point.bytes > self.peak.bytes {
            self.peak = point;
            self.garbage_at_peak = 0;
        }
        match self.points.as_mut_slice() {
            [.., before, last] if last.bytes - before.bytes < self.rise => *last = point,
            _ => self.points.push(point),
        }
        if self.points.len() > POINTS_MAX {
            self.rise = point.bytes / (POINTS_MAX as u64 / 2);
            self.thin();
        }
    }

    /// Drops points that rise too little; the last one stays.
    fn thin(&mut self) {
        let Some(last) = self.points.pop() else { return };
        let mut least = 0;
        self.points.retain(|point| {
            let keep = point.bytes >= least;
            if keep {
                least = point.bytes + self.rise;
            }
            keep
        });
        self.points.push(last);
    }

    /// A collection freed `garbage` (`known`) or may have; none of it was garbage until `since`
    /// yet.
    pub fn settle(&mut self, garbage: &Steps, since: u64, known: bool) {
        let Some(first) = garbage.first() else { return };
        if known && self.peak.stamp > since {
            self.garbage_at_peak += garbage.at(self.peak.stamp);
        }
        let from = self.points.partition_point(|point| point.stamp <= since || point.stamp < first);
        let mut most = from.checked_sub(1).map_or(self.lower, |before| self.points[before].bytes);
        let mut kept = from;
        for index in from..self.points.len() {
            let Point { stamp, bytes } = self.points[index];
            let bytes = bytes.saturating_sub(garbage.at(stamp));
            if bytes > most {
                most = bytes;
                self.points[kept] = Point { stamp, bytes };
                kept += 1;
            }
        }
        self.points.truncate(kept);
    }

    /// All garbage that was there at `until` has been found: points up to then lose no more.
    pub fn close(&mut self, until: u64) {
        let closed = self.points.partition_point(|point| point.stamp <= until);
        if let Some(last) = closed.checked_sub(1) {
            self.lower = self.lower.max(self.points[last].bytes);
            self.points.drain(..closed);
        }
        if self.points.is_empty() {
            self.rise = 0;
        }
    }

    /// No more will be noted for a while: releases room that is not needed.
    pub fn rest(&mut self) {
        self.points.shrink_to_fit();
    }

    /// The lower bound of the peak of live bytes that were no garbage, as far as it is known.
    pub fn lower(&self) -> u64 {
        self.lower
    }

    /// Garbage among the live bytes at their peak, as far as it is known.
    pub fn garbage_at_peak(&self) -> u64 {
        self.garbage_at_peak
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A block of the oracle: when it came, when it went, and whether the collector freed it.
    #[derive(Debug, Clone, Copy)]
    struct Block {
        alloc: u64,
        bytes: u64,
        free: u64,
        garbage: bool,
    }

    impl Block {
        fn is_there(&self, at: u64) -> bool {
            self.alloc <= at && at < self.free
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Alloc(u64),
        Free(usize),
        /// How many of the youngest blocks are examined (all of them: a full collection), and which
        /// of them are garbage.
        Collect(Option<usize>, u64),
    }

    fn steps(length: usize) -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (1..1000u64).prop_map(Step::Alloc),
            1 => (100_000..200_000u64).prop_map(Step::Alloc),
            4 => (0..1000usize).prop_map(Step::Free),
            1 => (prop::option::of(1..20usize), any::<u64>()).prop_map(|(young, which)| Step::Collect(young, which)),
        ];
        prop::collection::vec(step, 1..length)
    }

    /// Runs the steps, with a full collection at the end; the curve, and the blocks for the oracle.
    fn run(steps: &[Step]) -> (Curve, Vec<Block>) {
        let (mut curve, mut blocks, mut live, mut since) = (Curve::default(), Vec::new(), Vec::new(), 0);
        let last = [Step::Collect(None, 0x5555_5555_5555_5555)];
        for (step, now) in steps.iter().chain(&last).zip(1..) {
            match *step {
                Step::Alloc(bytes) => {
                    live.push(blocks.len());
                    blocks.push(Block { alloc: now, bytes, free: u64::MAX, garbage: false });
                    curve.note(now, live.iter().map(|index: &usize| blocks[*index].bytes).sum());
                }
                Step::Free(which) if !live.is_empty() => {
                    blocks[live.remove(which % live.len())].free = now;
                }
                Step::Free(_) => {}
                Step::Collect(young, which) => {
                    let from = young.map_or(0, |young| live.len().saturating_sub(young));
                    let mut found = Vec::new();
                    for (bit, index) in live.split_off(from).into_iter().enumerate() {
                        if which >> (bit % 64) & 1 == 1 {
                            blocks[index] = Block { free: now, garbage: true, ..blocks[index] };
                            found.push((blocks[index].alloc, blocks[index].bytes));
                        } else {
                            live.push(index);
                        }
                    }
                    curve.settle(&Steps::new(found.into_iter()), since, true);
                    if young.is_none() {
                        curve.close(now);
                        since = now;
                    }
                }
            }
        }
        (curve, blocks)
    }

    /// Live bytes at each time less those that a collection up to the next full one (or it) freed.
    fn exact(steps: &[Step], blocks: &[Block]) -> u64 {
        let full = |step: &Step| matches!(step, Step::Collect(None, _));
        let next_full = |at: u64| {
            let later = steps.iter().zip(1u64..).find(|(step, now)| *now > at && full(step));
            later.map_or(steps.len() as u64 + 1, |(_, now)| now)
        };
        let lower = |at: u64| {
            let sure = blocks
                .iter()
                .filter(|block| block.is_there(at) && !(block.garbage && block.free <= next_full(at)));
            sure.map(|block| block.bytes).sum::<u64>()
        };
        (1..=steps.len() as u64).map(lower).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn is_the_largest_live_bytes_less_what_the_next_full_collection_freed(steps in steps(120)) {
            let (curve, blocks) = run(&steps);
            prop_assert_eq!(curve.lower(), exact(&steps, &blocks));
        }

        #[test]
        fn garbage_at_the_peak_is_what_was_freed_of_it_by_the_next_full_collection(steps in steps(120)) {
            let (curve, blocks) = run(&steps);
            let live = |at: u64| blocks.iter().filter(|b| b.is_there(at)).map(|b| b.bytes).sum::<u64>();
            let end = steps.len() as u64;
            let peak = (1..=end).max_by_key(|at| (live(*at), u64::MAX - at)).unwrap();
            prop_assert_eq!(curve.peak.bytes, live(peak));
            let known = blocks.iter().filter(|b| b.is_there(peak) && b.garbage);
            let next_full = steps.iter().zip(1u64..).find(|(step, now)| *now > peak && matches!(step, Step::Collect(None, _)));
            let until = next_full.map_or(end + 1, |(_, now)| now);
            let garbage: u64 = known.filter(|b| b.free <= until).map(|b| b.bytes).sum();
            prop_assert_eq!(curve.garbage_at_peak(), garbage);
        }
    }

    /// Twenty thousand records, far more than points are kept: what is no garbage grows, then
    /// shrinks under garbage that grows faster.
    #[test]
    fn thinning_loses_less_than_a_thousandth_and_never_gains() {
        let (mut curve, mut garbage, mut kept, mut sum) = (Curve::default(), Vec::new(), 1_000_000, 0);
        for now in 1..20_000 {
            if now <= 12_000 {
                kept += 100 + now % 7;
            } else {
                kept -= 50;
                sum += 90;
                garbage.push((now, 90));
            }
            curve.note(now, kept + sum);
            assert!(curve.points.len() <= POINTS_MAX);
        }
        let exact = 1_000_000 + (1..=12_000).map(|now| 100 + now % 7).sum::<u64>();
        curve.settle(&Steps::new(garbage.into_iter()), 0, true);
        curve.close(20_000);
        assert!(curve.lower() <= exact && curve.lower() >= exact - exact / 1024, "{} {exact}", curve.lower());
    }

    #[test]
    fn what_is_noted_late_is_of_the_latest_time() {
        let mut curve = Curve::default();
        curve.note(10, 100);
        curve.close(20);
        curve.note(30, 160);
        curve.note(15, 170); // 10 of these bytes, noted late
        curve.settle(&Steps::new([(30, 60)].into_iter()), 20, true);
        curve.close(40);
        assert_eq!(curve.lower(), 110);
    }

    #[test]
    fn what_was_there_before_the_last_full_collection_was_not_garbage_then() {
        let mut curve = Curve::default();
        curve.note(5, 100);
        curve.settle(&Steps::new([(1, 60)].into_iter()), 5, true);
        curve.close(6);
        assert_eq!((curve.lower(), curve.garbage_at_peak()), (100, 0));
    }
}
