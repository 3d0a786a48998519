//! When tables are written anew, and live blocks with them.

use std::time::{Duration, Instant};

/// Tables are written anew this often (in long runs after every thousandth of their length, or
/// parts would become countless), and at every new peak; a program that is killed together with the
/// tracer leaves what was live then.
const TABLES_EVERY: Duration = Duration::from_secs(5);
/// Peaks that follow each other more closely are written once.
const PEAKS_APART: Duration = Duration::from_millis(200);
/// Writing takes a twentieth of the time at most.
const REST: u32 = 20;

/// See the module.
#[derive(Debug)]
pub struct TableTimer {
    last: Instant,
    every: Duration,
    /// Nothing is written before this.
    rest_until: Instant,
    /// Peak of live bytes when tables were last written.
    peak: u64,
}

impl TableTimer {
    /// Begins now.
    pub fn start() -> TableTimer {
        TableTimer { last: Instant::now(), every: TABLES_EVERY, rest_until: Instant::now(), peak: 0 }
    }

    /// True if tables are to be written, where this is the peak of live bytes so far.
    pub fn is_due(&self, peak: u64) -> bool {
        let (since, rested) = (self.last.elapsed(), Instant::now() > self.rest_until);
        let higher = peak > self.peak + self.peak / 32;
        rested && (higher && since > PEAKS_APART || since > self.every)
    }

    /// Writing begins, this many nanoseconds after the recording.
    pub fn begin(&mut self, recorded_ns: i64) {
        self.last = Instant::now();
        self.every = TABLES_EVERY.max(Duration::from_nanos(recorded_ns as u64) / 1000);
    }

    /// Writing has ended, at this peak of live bytes.
    pub fn end(&mut self, peak: u64) {
        self.rest_until = Instant::now() + self.last.elapsed() * REST;
        self.peak = peak;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_due_at_a_peak_or_after_some_time() {
        let ago = |ms| Instant::now() - Duration::from_millis(ms);
        let timer = TableTimer { last: ago(300), every: TABLES_EVERY, rest_until: ago(1), peak: 3200 };
        assert!(!timer.is_due(3300), "a thirty-second more");
        assert!(timer.is_due(3301));
        assert!(!TableTimer { last: ago(100), ..timer }.is_due(9999), "too soon");
        let timer = TableTimer { last: ago(5001), every: TABLES_EVERY, rest_until: ago(1), peak: 3200 };
        assert!(timer.is_due(0));
        let rests = Instant::now() + Duration::from_secs(1);
        assert!(!TableTimer { rest_until: rests, ..timer }.is_due(9999));
    }

    #[test]
    fn in_long_recordings_tables_are_written_less_often() {
        let mut timer = TableTimer::start();
        timer.begin(10_000_000_000_000);
        assert_eq!(timer.every, Duration::from_secs(10));
        timer.begin(1);
        assert_eq!(timer.every, TABLES_EVERY);
    }
}
