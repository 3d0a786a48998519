//! How many events there were when, and time cut into windows by that.

use std::ops::Range;

/// Pieces that time is cut into to count events.
const SLOTS: usize = 1 << 20;

/// Events over time. All pieces are equally long, a power of two of nanoseconds.
pub struct Slots {
    duration: i64,
    shift: u32,
    events: Vec<u32>,
    far: Vec<u32>,
}

/// A piece of time that is gone through at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First nanosecond.
    pub from: i64,
    /// The next one's first.
    pub until: i64,
    /// Events in it.
    pub events: usize,
    /// Those of them that are far.
    pub far: usize,
}

impl Slots {
    /// For times from 0 to `duration`.
    pub fn new(duration: i64) -> Slots {
        let shift = 64 - (duration.max(0) as u64 / SLOTS as u64).leading_zeros();
        Slots { duration, shift, events: vec![0; SLOTS], far: vec![0; SLOTS] }
    }

    fn slot(&self, time: i64) -> usize {
        (time.max(0) >> self.shift).min(SLOTS as i64 - 1) as usize
    }

    /// Counts an event.
    #[inline]
    pub fn count(&mut self, time: i64, is_far: bool) {
        let slot = self.slot(time);
        self.events[slot] = self.events[slot].saturating_add(1);
        self.far[slot] = self.far[slot].saturating_add(u32::from(is_far));
    }

    /// Adds what another thread has counted.
    pub fn join(&mut self, other: &Slots) {
        for (mine, others) in [(&mut self.events, &other.events), (&mut self.far, &other.far)] {
            mine.iter_mut().zip(others).for_each(|(mine, other)| *mine = mine.saturating_add(*other));
        }
    }

    /// Windows of about so many events. They rather end where the releases of a row group end, so that it need not
    /// be read for two of them.
    pub fn windows(&self, usual: usize, releases: impl Iterator<Item = Option<(i64, i64)>>) -> Vec<Window> {
        let mut ends = vec![false; SLOTS];
        releases.flatten().for_each(|(_, last)| ends[self.slot(last)] = true);
        let mut windows = Vec::new();
        let mut open = Window { from: 0, until: i64::MAX, events: 0, far: 0 };
        for (slot, is_end) in ends.into_iter().enumerate() {
            let (events, far) = (self.events[slot] as usize, self.far[slot] as usize);
            let next = (slot as i64) << self.shift;
            if open.events > 0 && open.events + events > usual + usual / 2 {
                windows.push(Window { until: next, ..open });
                open = Window { from: next, events: 0, far: 0, ..open };
            }
            open.events += events;
            open.far += far;
            if is_end && open.events >= usual / 2 {
                let next = (slot as i64 + 1) << self.shift;
                windows.push(Window { until: next, ..open });
                open = Window { from: next, events: 0, far: 0, ..open };
            }
        }
        windows.push(Window { until: self.duration + 1, ..open });
        windows
    }
}

/// Windows in batches with at most so many far events each, or a single window.
pub fn batches(windows: &[Window], most: usize) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut far) = (0, 0);
    for (index, window) in windows.iter().enumerate() {
        if index > start && far + window.far > most {
            batches.push(start..index);
            (start, far) = (index, 0);
        }
        far += window.far;
    }
    batches.push(start..windows.len());
    batches
}
