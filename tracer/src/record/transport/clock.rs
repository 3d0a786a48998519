//! From stamps to nanoseconds since the recording began.
//!
//! The processor's counter is read together with `CLOCK_MONOTONIC` now and then. Times lie on a line of straight
//! pieces, one per reading; a new piece begins where the last one has come to and is inclined to
//! meet the true time one interval later. So one stamp always becomes the same time, whenever it is
//! converted, and times never run backwards. Times of the trace are multiples of [`GRAIN_NS`]: stamps
//! of two threads are no better ordered than that, and what is finer took a tenth of a trace.

use std::time::Duration;

use memtrace_wire::arch::counter;
use rustix::time::{ClockId, clock_gettime};

/// A reading of both clocks at once.
#[derive(Debug, Clone, Copy)]
struct Reading {
    stamp: u64,
    ns: i64,
}

/// A straight piece: from this stamp on, until the next piece begins.
#[derive(Debug, Clone, Copy)]
struct Piece {
    stamp: u64,
    ns: f64,
    ns_per_tick: f64,
}

/// Converts stamps. See the module.
pub struct Clock {
    /// Stamps are ticks of the processor's counter, not the kernel's nanoseconds.
    counts: bool,
    first: Reading,
    last: Reading,
    pieces: Vec<Piece>,
    /// Until the next reading: short at first, when the rate is known badly.
    interval: Duration,
    /// How far the line was from the true time at any reading, at most.
    worst_ns: f64,
}

/// What times of the trace are multiples of.
pub const GRAIN_NS: i64 = 8;

const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_secs(1);

impl Clock {
    /// Starts at zero now. `steady` says whether the processor's counter may be used.
    pub fn start(steady: bool) -> Clock {
        let origin = Reading { stamp: 0, ns: 0 };
        let mut clock = Clock {
            counts: steady,
            first: origin,
            last: origin,
            pieces: Vec::new(),
            interval: SHORTEST,
            worst_ns: 0.0,
        };
        clock.first = clock.read();
        clock.last = clock.first;
        clock.pieces.push(Piece { stamp: clock.first.stamp, ns: 0.0, ns_per_tick: 1.0 });
        clock
    }

    /// True if the kernel and the processor say that its counter runs at one rate on all cores.
    pub fn counter_is_steady() -> bool {
        std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| counter::is_steady(&text))
    }

    /// The counter's name (`tsc`, `cntvct`), or `monotonic`.
    pub fn name(&self) -> &'static str {
        if self.counts { counter::NAME } else { "monotonic" }
    }

    /// True if stamps are ticks of the processor's counter.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// A stamp taken now.
    pub fn stamp(&self) -> u64 {
        if self.counts { counter::stamp() } else { monotonic_ns() as u64 }
    }

    /// Ticks in this many nanoseconds, by the latest reading.
    pub fn ticks(&self, ns: u64) -> u64 {
        (ns as f64 / self.pieces[self.pieces.len() - 1].ns_per_tick) as u64
    }

    /// Ticks after which a pending release will not come any more: ten milliseconds, more or less.
    #[inline]
    pub fn patience(&self) -> u64 {
        if self.counts { counter::patience() } else { 10_000_000 }
    }

    /// Nanoseconds in this many ticks, by the latest reading.
    pub fn ns_of(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.pieces[self.pieces.len() - 1].ns_per_tick) as u64
    }

    /// Ticks after which the time of the trace is surely another one, however a piece is inclined.
    pub fn step(&self) -> u64 {
        const SURELY_NS: u64 = GRAIN_NS as u64 * 5 / 4;
        if self.counts { self.ticks(SURELY_NS).max(1) + 1 } else { GRAIN_NS as u64 }
    }

    /// Ticks in about ten microseconds: how far a stamp may be ahead of the store that announced
    /// it.
    pub fn margin(&self) -> u64 {
        if self.counts { counter::margin() } else { 10_000 }
    }

    /// Takes a new reading if the last one is old enough. Call it before converting a batch.
    pub fn update(&mut self) {
        if !self.counts {
            return;
        }
        let mut now = self.read();
        let starting = self.last.stamp == self.first.stamp;
        while starting && now.ns - self.last.ns < SHORTEST.as_nanos() as i64 {
            std::thread::sleep(SHORTEST);
            now = self.read();
        }
        if now.ns - self.last.ns < self.interval.as_nanos() as i64 {
            return;
        }
        let rate = (now.ns - self.last.ns) as f64 / (now.stamp - self.last.stamp).max(1) as f64;
        self.last = now;
        if starting {
            // Nothing was converted yet.
            self.pieces = vec![Piece { stamp: self.first.stamp, ns: 0.0, ns_per_tick: rate }];
        } else {
            self.bend(now, rate);
        }
        self.interval = (self.interval * 10).min(LONGEST);
    }

    /// Begins a piece that meets the true time one interval from now; never steeper or flatter than
    /// by a tenth.
    fn bend(&mut self, now: Reading, rate: f64) {
        let here = self.place(now.stamp);
        let behind = (now.ns - self.first.ns) as f64 - here;
        self.worst_ns = self.worst_ns.max(behind.abs());
        let bent = rate * (1.0 + (behind / self.interval.as_nanos() as f64).clamp(-0.1, 0.1));
        self.pieces.push(Piece { stamp: now.stamp, ns: here, ns_per_tick: bent });
    }

    /// The time of the trace: nanoseconds since the start.
    #[inline]
    pub fn ns(&self, stamp: u64) -> i64 {
        in_grains(self.exact_ns(stamp))
    }

    #[inline]
    fn exact_ns(&self, stamp: u64) -> i64 {
        if !self.counts {
            return stamp as i64 - self.first.ns;
        }
        self.place(stamp) as i64
    }

    #[inline]
    fn place(&self, stamp: u64) -> f64 {
        let last = self.pieces[self.pieces.len() - 1];
        let piece = if stamp >= last.stamp { last } else { self.earlier(stamp) };
        piece.ns + (stamp.wrapping_sub(piece.stamp) as i64) as f64 * piece.ns_per_tick
    }

    fn earlier(&self, stamp: u64) -> Piece {
        let next = self.pieces.partition_point(|piece| piece.stamp <= stamp).max(1);
        self.pieces[next - 1]
    }

    /// The same of a time of CLOCK_MONOTONIC, which is what the kernel's events bear.
    pub fn of_monotonic(&self, ns: u64) -> i64 {
        in_grains(self.since_start(ns))
    }

    fn since_start(&self, monotonic_ns: u64) -> i64 {
        monotonic_ns as i64 - self.first.ns
    }

    /// The time of CLOCK_MONOTONIC at which a stamp was taken.
    pub fn to_monotonic(&self, stamp: u64) -> u64 {
        (self.exact_ns(stamp) + self.first.ns).max(0) as u64
    }

    /// CLOCK_MONOTONIC now.
    pub fn monotonic_now(&self) -> u64 {
        monotonic_ns() as u64
    }

    /// The stamp that would have been taken at a time of CLOCK_MONOTONIC.
    pub fn stamp_of_monotonic(&self, ns: u64) -> u64 {
        if !self.counts {
            return ns;
        }
        let since = self.since_start(ns) as f64;
        let next = self.pieces.partition_point(|piece| piece.ns <= since).max(1);
        let piece = self.pieces[next - 1];
        piece.stamp.wrapping_add_signed(((since - piece.ns) / piece.ns_per_tick) as i64)
    }

    /// A stamp that is not before a time of CLOCK_MONOTONIC, and at most two ticks of the counter or
    /// two nanoseconds after it. Arm's counters have ticks of some 50 ns at most.
    pub fn stamp_past_monotonic(&self, ns: u64) -> u64 {
        let mut stamp = self.stamp_of_monotonic(ns);
        while self.exact_ns(stamp) < self.since_start(ns) {
            stamp += 1;
        }
        stamp
    }

    /// How far times from stamps and times from CLOCK_MONOTONIC may be apart, ns: as far as they
    /// were at any reading so far.
    pub fn error_ns(&self) -> i64 {
        self.worst_ns as i64
    }

    /// Nanoseconds since the start, now.
    pub fn now_ns(&self) -> i64 {
        monotonic_ns() - self.first.ns
    }

    /// Both clocks; the tightest of five attempts, because a preemption between the two reads is an
    /// error.
    fn read(&self) -> Reading {
        (0..5)
            .map(|_| {
                let before = self.stamp();
                let ns = monotonic_ns();
                let after = self.stamp();
                (after - before, Reading { stamp: before + (after - before) / 2, ns })
            })
            .min_by_key(|(width, _)| *width)
            .map(|(_, reading)| reading)
            .expect("five attempts were made")
    }
}

/// The last multiple of the grain that is no later.
#[inline]
fn in_grains(ns: i64) -> i64 {
    ns & -GRAIN_NS
}

fn monotonic_ns() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_always_becomes_the_same_time() {
        let mut clock = Clock::start(Clock::counter_is_steady());
        clock.update();
        let mut known = Vec::new();
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(8));
            let stamp = clock.stamp();
            known.push((stamp, clock.ns(stamp)));
            clock.update();
        }
        for (stamp, ns) in known {
            assert_eq!(clock.ns(stamp), ns);
            let again = clock.stamp_of_monotonic((ns + clock.first.ns) as u64);
            let tick = clock.ns_of(1) as i64;
            assert!((clock.ns(again) - ns).abs() < 10 + tick, "and back");
        }
        let now = clock.stamp();
        assert!((clock.now_ns() - clock.ns(now)).abs() < 5_000_000, "and not far from the true one");
    }

    /// Whatever a tick has: 0.3 ns of a TSC, or 42 ns at 24 MHz.
    #[test]
    fn a_time_is_not_after_the_stamp_past_it() {
        for tick in [0.3, 1.0, 16.0, 41.7] {
            let first = Reading { stamp: 1 << 50, ns: 1 << 40 };
            let pieces = [(0, 0.0, tick), (1000, 1000.0 * tick, tick * 1.03)]
                .map(|(after, ns, ns_per_tick)| Piece { stamp: first.stamp + after, ns, ns_per_tick });
            let clock = Clock {
                counts: true,
                first,
                last: first,
                pieces: pieces.to_vec(),
                interval: SHORTEST,
                worst_ns: 0.0,
            };
            for since in 0..100_000 {
                let ns = (first.ns + since) as u64;
                let late = clock.exact_ns(clock.stamp_past_monotonic(ns)) - since;
                assert!((0..=2 + 2 * tick as i64).contains(&late), "{late} ns, tick {tick}, at {since}");
            }
        }
    }

    /// At both ends of what a piece may be inclined by.
    #[test]
    fn stamps_a_step_apart_have_different_times() {
        for tick in [0.2, 0.385, 1.0, 10.0, 41.7] {
            for inclined in [0.9, 1.1] {
                let first = Reading { stamp: 0, ns: 0 };
                let steep = Piece { stamp: 0, ns: 0.0, ns_per_tick: tick * inclined };
                let last = Piece { stamp: 1 << 40, ns: 1e12, ns_per_tick: tick * (2.0 - inclined) };
                let (counts, pieces) = (true, vec![steep, last]);
                let clock = Clock { counts, first, last: first, pieces, interval: SHORTEST, worst_ns: 0.0 };
                let step = clock.step();
                assert!(step <= clock.ticks(20) + 2, "no further apart than it takes");
                let times = (0..100_000).map(|number| clock.ns(number * step));
                assert!(times.collect::<Vec<_>>().is_sorted_by(|a, b| a < b), "tick {tick}, {inclined}");
            }
        }
    }

    #[test]
    fn converted_times_never_run_backwards() {
        let mut clock = Clock::start(Clock::counter_is_steady());
        let mut stamps = vec![clock.stamp()];
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(3));
            clock.update();
            stamps.push(clock.stamp());
        }
        let times: Vec<i64> = stamps.iter().map(|stamp| clock.ns(*stamp)).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert!(times[0] >= 0 && clock.now_ns() >= times[3] - 1_000);
    }
}
