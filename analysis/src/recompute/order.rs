//! Puts the changes of a window in order. Most are already: row groups are written as blocks are released.

use std::ops::Range;

use super::events::{Change, Event, Turn};

/// Bits of a key that say which change it is of, and its turn.
const PLACE_BITS: u32 = 21;
const TURN_BITS: u32 = 2;

/// Room to put events in order: a number each that sorts them, by time, turn and place.
#[derive(Default)]
pub struct Order {
    sorted: Vec<u64>,
    ends: Vec<u32>,
}

/// Changes in the order of time.
pub struct Changes<'a> {
    first: i64,
    sorted: &'a [u64],
    events: &'a [Event],
}

impl Order {
    /// Events that can be told apart at most.
    pub const EVENTS_MAX: usize = 1 << PLACE_BITS;
    /// Nanoseconds that can be told apart.
    pub const LENGTH_MAX: i64 = 1 << (64 - PLACE_BITS - TURN_BITS);

    /// Puts those of the events in order, at most [`Order::EVENTS_MAX`], that lie in `time`, which is at most
    /// [`Order::LENGTH_MAX`] long. Each goes to one of about as many pieces of time as there are events, and is compared
    /// with those of its piece only.
    pub fn of<'a>(&'a mut self, events: &'a [Event], time: Range<i64>) -> Changes<'a> {
        let first = time.start;
        let keys = || {
            let here = (0..).zip(events).filter(|(_, event): &(u64, _)| time.contains(&event.time));
            here.map(|(place, event)| {
                let since = event.time.wrapping_sub(first) as u64;
                (since << TURN_BITS | event.change.turn as u64) << PLACE_BITS | place
            })
        };
        let (count, longest) = keys().fold((0, 0), |(count, longest), key| (count + 1, key.max(longest)));
        let pieces = usize::next_power_of_two(count);
        let shift = (64 - longest.leading_zeros()).saturating_sub(pieces.trailing_zeros());
        // A single key may be shifted out as a whole.
        let piece = |key: u64| key.checked_shr(shift).unwrap_or(0) as usize;
        self.ends.clear();
        self.ends.resize(pieces + 1, 0);
        keys().for_each(|key| self.ends[piece(key) + 1] += 1);
        let mut end = 0;
        for next in &mut self.ends {
            end += *next;
            *next = end;
        }
        self.sorted.clear();
        self.sorted.resize(count, 0);
        for key in keys() {
            let end = &mut self.ends[piece(key)];
            self.sorted[*end as usize] = key;
            *end += 1;
        }
        let mut start = 0;
        for end in &self.ends[..pieces] {
            let end = *end as usize;
            if end - start > 1 {
                self.sorted[start..end].sort_unstable();
            }
            start = end;
        }
        Changes { first, sorted: &self.sorted, events }
    }
}

impl Changes<'_> {
    /// Time and change, by place in the order.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(i64, &Change)> {
        let key = *self.sorted.get(index)?;
        let time = (key >> (PLACE_BITS + TURN_BITS)) as i64;
        let place = (key & (Order::EVENTS_MAX as u64 - 1)) as usize;
        Some((self.first.wrapping_add(time), &self.events[place].change))
    }

    /// Asks the processor for the change at `index`: those of one time lie as far apart as their blocks' ends.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        if let Some((_, change)) = self.get(index) {
            // SAFETY: SSE is part of x86-64, and a prefetch accesses nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(change).cast()) };
        }
    }

    /// True if the order within a nanosecond, whose first change is the release at `index`, is not known: more
    /// happened in it than that `realloc` replaced one block by another.
    pub fn is_open(&self, index: usize) -> bool {
        let Some((time, _)) = self.get(index) else { return false };
        let now = (index + 1..).map_while(|index| self.get(index)).take_while(|(at, _)| *at == time);
        let mut others = now.map(|(_, change)| change).filter(|change| !change.is_of_site_alone());
        let mut turn = || others.next().map(|change| change.turn);
        !matches!((turn(), turn()), (None, _) | (Some(Turn::Realloc), None))
    }

    /// Acquires that happened in the nanosecond of the change at `index`, which is a release.
    pub fn acquires_with(&self, index: usize) -> impl Iterator<Item = &Change> {
        let time = self.get(index).map(|(time, _)| time);
        let now = (index..).map_while(|index| self.get(index));
        let now = now.take_while(move |(at, _)| Some(*at) == time).map(|(_, change)| change);
        now.filter(|change| matches!(change.turn, Turn::Acquire | Turn::Realloc))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::recompute::events::NONE;

    proptest! {
        #[test]
        fn is_that_of_the_keys(
            times in prop::collection::vec(
                (prop_oneof![0..50i64, 0..Order::LENGTH_MAX], any::<bool>()), 0..200,
            ),
            skipped in 0..20i64,
        ) {
            let event = |(time, acquire): (i64, bool)| {
                let turn = if acquire { Turn::Acquire } else { Turn::Release };
                let change = Change { bytes: 1, process: NONE, site: NONE, span: NONE, turn, together: true };
                Event { time: time - 7, change }
            };
            let mut events: Vec<Event> = times.into_iter().map(event).collect();
            let mut order = Order::default();
            let time = skipped - 7..Order::LENGTH_MAX - 7;
            let changes = order.of(&events, time.clone());
            let found: Vec<_> = (0..).map_while(|i| changes.get(i)).map(|(time, change)| (time, change.turn)).collect();
            let key = |event: &Event| (event.time, event.change.turn);
            events.retain(|event| time.contains(&event.time));
            events.sort_by_key(key);
            prop_assert_eq!(found, events.iter().map(key).collect::<Vec<_>>());
        }
    }
}
