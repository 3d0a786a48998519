//! Puts the changes of a window in order. Most are already: row groups are written as blocks are released.

use super::events::{Change, Event, Turn};

/// Bits of a key that say which change it is of, and its turn.
const PLACE_BITS: u32 = 21;
const TURN_BITS: u32 = 2;

/// Changes of a window, with one number each that sorts them: time, turn and place.
#[derive(Default)]
pub struct Ordered {
    first: i64,
    keys: Vec<u64>,
    changes: Vec<Change>,
    sorted: Vec<u64>,
    ends: Vec<u32>,
}

impl Ordered {
    /// Changes that can be told apart at most.
    pub const CHANGES_MAX: usize = 1 << PLACE_BITS;
    /// Nanoseconds that can be told apart.
    pub const LENGTH_MAX: i64 = 1 << (64 - PLACE_BITS - TURN_BITS);

    /// Forgets all; `count` changes are to come, from `first` on and for less than [`Ordered::LENGTH_MAX`].
    pub fn begin(&mut self, first: i64, count: usize) {
        self.first = first;
        self.keys.clear();
        self.changes.clear();
        self.keys.reserve_exact(count);
        self.changes.reserve_exact(count);
    }

    /// Changes so far.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Adds one, below [`Ordered::CHANGES_MAX`] of them.
    #[inline]
    pub fn push(&mut self, event: &Event) {
        let time = event.time.wrapping_sub(self.first) as u64;
        let turn = event.change.turn as u64;
        self.keys.push((time << TURN_BITS | turn) << PLACE_BITS | self.changes.len() as u64);
        self.changes.push(event.change);
    }

    /// Puts them in order. Each key goes to one of about as many pieces of time as there are keys, and is compared
    /// with those of its piece only.
    pub fn sort(&mut self) {
        let pieces = self.keys.len().next_power_of_two();
        let longest = self.keys.iter().max().copied().unwrap_or(0);
        let shift = (64 - longest.leading_zeros()).saturating_sub(pieces.trailing_zeros());
        // A single key may be shifted out as a whole.
        let piece = |key: u64| key.checked_shr(shift).unwrap_or(0) as usize;
        self.ends.clear();
        self.ends.resize(pieces + 1, 0);
        self.keys.iter().for_each(|key| self.ends[piece(*key) + 1] += 1);
        let mut end = 0;
        for next in &mut self.ends {
            end += *next;
            *next = end;
        }
        self.sorted.clear();
        self.sorted.resize(self.keys.len(), 0);
        for key in &self.keys {
            let end = &mut self.ends[piece(*key)];
            self.sorted[*end as usize] = *key;
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
    }

    /// Time and change, by place in the order.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(i64, &Change)> {
        let key = *self.sorted.get(index)?;
        let time = (key >> (PLACE_BITS + TURN_BITS)) as i64;
        let place = (key & (Self::CHANGES_MAX as u64 - 1)) as usize;
        Some((self.first.wrapping_add(time), &self.changes[place]))
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
                (prop_oneof![0..50i64, 0..Ordered::LENGTH_MAX], any::<bool>()), 0..200,
            ),
        ) {
            let event = |(time, acquire): (i64, bool)| {
                let turn = if acquire { Turn::Acquire } else { Turn::Release };
                let change = Change { bytes: 1, process: NONE, site: NONE, span: NONE, turn, together: true };
                Event { time: time - 7, change }
            };
            let mut events: Vec<Event> = times.into_iter().map(event).collect();
            let mut ordered = Ordered::default();
            ordered.begin(-7, events.len());
            events.iter().for_each(|event| ordered.push(event));
            ordered.sort();
            let found: Vec<_> = (0..).map_while(|i| ordered.get(i)).map(|(time, change)| (time, change.turn)).collect();
            events.sort_by_key(Event::key);
            prop_assert_eq!(found, events.iter().map(Event::key).collect::<Vec<_>>());
        }
    }
}
