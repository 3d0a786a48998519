//! From stamps to nanoseconds since the recording began.
//!
//! The TSC is read together with `CLOCK_MONOTONIC` now and then; a stamp is placed on the straight line
//! between the two readings around it, so converted times never run backwards.

use std::time::Duration;

/// A reading of both clocks at once.
#[derive(Debug, Clone, Copy)]
struct Reading {
    stamp: u64,
    ns: i64,
}

/// Converts stamps. See the module.
pub struct Clock {
    tsc: bool,
    readings: Vec<Reading>,
    ns_per_tick: f64,
}

/// Readings closer together than this give too coarse a rate.
const SHORTEST: Duration = Duration::from_millis(2);
const BETWEEN: Duration = Duration::from_secs(1);

impl Clock {
    /// Starts at zero now. `invariant` says whether the TSC may be used.
    pub fn start(invariant: bool) -> Clock {
        let mut clock = Clock { tsc: invariant, readings: Vec::new(), ns_per_tick: 1.0 };
        clock.readings.push(clock.read());
        clock
    }

    /// True if the kernel and the processor say that the TSC runs at one rate on all cores.
    pub fn tsc_is_invariant() -> bool {
        std::fs::read_to_string("/proc/cpuinfo")
            .is_ok_and(|text| text.contains(" constant_tsc") && text.contains(" nonstop_tsc"))
    }

    /// `tsc` or `monotonic`.
    pub fn name(&self) -> &'static str {
        if self.tsc { "tsc" } else { "monotonic" }
    }

    /// A stamp taken now.
    pub fn stamp(&self) -> u64 {
        if self.tsc {
            // SAFETY: every x86-64 has rdtsc.
            unsafe { core::arch::x86_64::_rdtsc() }
        } else {
            monotonic_ns() as u64
        }
    }

    /// Ticks in so many nanoseconds, by the latest reading.
    pub fn ticks(&self, ns: u64) -> u64 {
        (ns as f64 / self.ns_per_tick) as u64
    }

    /// Nanoseconds in so many ticks, by the latest reading.
    pub fn ns_of(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick) as u64
    }

    /// Ticks in about ten microseconds: how far a stamp may be ahead of the store that announced it.
    pub fn margin(&self) -> u64 {
        if self.tsc { 50_000 } else { 10_000 }
    }

    /// Takes a new reading if the last one is old enough. Call it before converting a batch.
    pub fn update(&mut self) {
        if !self.tsc {
            return;
        }
        let last = self.readings[self.readings.len() - 1];
        let mut now = self.read();
        if self.readings.len() == 1 {
            while now.ns - last.ns < SHORTEST.as_nanos() as i64 {
                std::thread::sleep(SHORTEST);
                now = self.read();
            }
        } else if now.ns - last.ns < BETWEEN.as_nanos() as i64 {
            return;
        }
        self.ns_per_tick = (now.ns - last.ns) as f64 / (now.stamp - last.stamp).max(1) as f64;
        self.readings.push(now);
    }

    /// Nanoseconds since the start.
    pub fn ns(&self, stamp: u64) -> i64 {
        let origin = self.readings[0].ns;
        if !self.tsc {
            return stamp as i64 - origin;
        }
        let last = self.readings[self.readings.len() - 1];
        if stamp >= last.stamp || self.readings.len() == 1 {
            let ticks = stamp.wrapping_sub(last.stamp) as i64;
            return last.ns - origin + (ticks as f64 * self.ns_per_tick) as i64;
        }
        let next = self.readings.partition_point(|reading| reading.stamp <= stamp).max(1);
        let (a, b) = (self.readings[next - 1], self.readings[next]);
        let rate = (b.ns - a.ns) as f64 / (b.stamp - a.stamp).max(1) as f64;
        a.ns - origin + ((stamp.wrapping_sub(a.stamp) as i64) as f64 * rate) as i64
    }

    /// Nanoseconds since the start, now.
    pub fn now_ns(&self) -> i64 {
        monotonic_ns() - self.readings[0].ns
    }

    /// Both clocks; the tightest of five attempts, because a preemption between the two reads is an error.
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

fn monotonic_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converted_times_never_run_backwards() {
        let mut clock = Clock::start(Clock::tsc_is_invariant());
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
