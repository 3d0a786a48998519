//! What happened in a window, put in order. Most is already: row groups are written as blocks are
//! released.

use super::events::{Event, Share, Turn};
use crate::arch::prefetch;

/// Bits of a key that say which share it is of.
const PLACE_BITS: u32 = 21;

/// What happened at a place in the order.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// When.
    pub time: i64,
    /// What.
    pub turn: Turn,
    /// To which bytes.
    pub share: &'a Share,
}

/// Events of a window: of each a number that sorts them, made of time, turn, and the place of its
/// share. A block that came and went in the window has one share.
#[derive(Default)]
pub struct Ordered {
    from: i64,
    floor: i64,
    most: usize,
    keys: Vec<u64>,
    shares: Vec<Share>,
    sorted: Vec<u64>,
    ends: Vec<u32>,
}

impl Ordered {
    /// Events that can be distinguished at most.
    pub const EVENTS_MAX: usize = 1 << PLACE_BITS;
    /// Nanoseconds that can be distinguished.
    pub const LENGTH_MAX: i64 = 1 << (u64::BITS - PLACE_BITS - Turn::BITS);

    /// Forgets all. Of what comes from `from` on, and for less than [`Ordered::LENGTH_MAX`], at
    /// most `most` events are kept, from a floor on that rises when they become too many: what lies
    /// below it is left to a later pass.
    pub fn begin(&mut self, from: i64, most: usize) {
        (self.from, self.floor, self.most) = (from, from, most);
        self.keys.clear();
        self.shares.clear();
    }

    /// Adds an event.
    #[inline(always)]
    pub fn push(&mut self, event: &Event) {
        if event.time() < self.floor {
            return;
        }
        if self.shares.last() != Some(&event.share) {
            if self.shares.len() == Self::EVENTS_MAX {
                self.forget_shares();
            }
            self.shares.push(event.share);
        }
        let since = event.moment().wrapping_sub((self.from as u64) << Turn::BITS);
        self.keys.push(since << PLACE_BITS | (self.shares.len() - 1) as u64);
        if self.keys.len() == self.most {
            self.give_up_some();
        }
    }

    /// Time from which on all are there.
    pub fn floor(&self) -> i64 {
        self.floor
    }

    /// Leaves what lies below `floor` to a later pass.
    pub fn rise(&mut self, floor: i64) {
        if floor > self.floor {
            self.floor = floor;
            let from = self.from;
            self.keys.retain(|key| time(from, *key) >= floor);
        }
    }

    #[cold]
    fn give_up_some(&mut self) {
        let some = self.keys.len() / 4;
        let key = *self.keys.select_nth_unstable(some).1;
        self.rise(time(self.from, key) + 1);
        self.forget_shares();
    }

    /// Those of events that were left to a later pass: places of all others must fit into keys.
    #[cold]
    fn forget_shares(&mut self) {
        let shares = std::mem::take(&mut self.shares);
        for key in &mut self.keys {
            self.shares.push(shares[place(*key)]);
            *key = *key >> PLACE_BITS << PLACE_BITS | (self.shares.len() - 1) as u64;
        }
    }

    /// Puts them in order. Each key goes to one of about half as many pieces of time as there are
    /// keys, and is compared with those of its piece only.
    pub fn sort(&mut self) {
        let pieces = (self.keys.len() / 2).next_power_of_two();
        let longest = self.keys.iter().max().copied().unwrap_or(0);
        let shift = (u64::BITS - longest.leading_zeros()).saturating_sub(pieces.trailing_zeros());
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
        self.sorted.resize(self.keys.len(), 0); // whatever was there is overwritten
        for key in &self.keys {
            let end = &mut self.ends[piece(*key)];
            self.sorted[*end as usize] = *key;
            *end += 1;
        }
        let mut start = 0;
        for end in &self.ends[..pieces] {
            let end = *end as usize;
            sort_few(&mut self.sorted[start..end]);
            start = end;
        }
    }

    /// What happened, by place in the order.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Change<'_>> {
        let key = *self.sorted.get(index)?;
        let (time, turn) = (time(self.from, key), Turn::of(key >> PLACE_BITS));
        Some(Change { time, turn, share: &self.shares[place(key)] })
    }

    /// Prefetches the share at `index`: those of one time lie as far apart as their blocks' ends.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        if let Some(Change { share, .. }) = self.get(index) {
            prefetch::to_read(share);
        }
    }

    /// What else happened in the nanosecond of what is at `index`, from there on.
    fn with(&self, index: usize) -> impl Iterator<Item = (Turn, &Share)> {
        let now = self.get(index).map(|change| change.time);
        let from = (index..).map_while(|index| self.get(index));
        from.take_while(move |change| Some(change.time) == now).map(|change| (change.turn, change.share))
    }

    /// True if the order within a nanosecond, whose first event is the release at `index`, is not
    /// known: more happened in it than that `realloc` replaced one block by another.
    pub fn is_open(&self, index: usize) -> bool {
        let mut others = self.with(index).skip(1).filter(|(_, share)| !share.is_only_of_site());
        let mut turn = || others.next().map(|(turn, _)| turn);
        !matches!((turn(), turn()), (None, _) | (Some(Turn::Realloc), None))
    }

    /// What was acquired in the nanosecond of the release at `index`.
    pub fn acquires_with(&self, index: usize) -> impl Iterator<Item = &Share> {
        self.with(index).filter(|(turn, _)| turn.is_acquire()).map(|(_, share)| share)
    }
}

/// Sorts by insertion what is mostly one or two keys.
#[inline]
fn sort_few(keys: &mut [u64]) {
    const FEW: usize = 32;
    if keys.len() > FEW {
        return keys.sort_unstable();
    }
    for end in 1..keys.len() {
        let key = keys[end];
        let mut at = end;
        while at > 0 && keys[at - 1] > key {
            keys[at] = keys[at - 1];
            at -= 1;
        }
        keys[at] = key;
    }
}

fn time(from: i64, key: u64) -> i64 {
    from.wrapping_add((key >> (PLACE_BITS + Turn::BITS)) as i64)
}

fn place(key: u64) -> usize {
    (key & (Ordered::EVENTS_MAX as u64 - 1)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::recompute::events::NONE;

    /// Events come and are left to a later pass, again and again.
    #[test]
    fn places_of_shares_do_not_run_out() {
        let share = |bytes| Share { bytes, process: NONE, site: NONE, span: NONE, together: true };
        let mut ordered = Ordered::default();
        ordered.begin(0, 1000);
        let last = 2 * Ordered::EVENTS_MAX as i64 + 500;
        for time in 0..=last {
            ordered.push(&Event::new(time, Turn::Acquire, share(time)));
            if time % 500 == 0 {
                ordered.rise(time);
            }
        }
        ordered.sort();
        let found =
            (0..).map_while(|index| ordered.get(index)).map(|change| (change.time, change.share.bytes));
        let from = last / 500 * 500;
        assert!(found.eq((from..=last).map(|time| (time, time))));
    }

    proptest! {
        #[test]
        fn is_that_of_time_and_turn(
            times in prop::collection::vec(
                (prop_oneof![0..50i64, 0..Ordered::LENGTH_MAX], any::<bool>(), 1..3i64), 0..200,
            ),
            most in 150..250usize,
        ) {
            let event = |(time, acquire, bytes)| {
                let turn = if acquire { Turn::Acquire } else { Turn::Release };
                Event::new(time + 7, turn, Share { bytes, process: NONE, site: NONE, span: NONE, together: true })
            };
            let mut events: Vec<Event> = times.into_iter().map(event).collect();
            let mut ordered = Ordered::default();
            ordered.begin(7, most);
            events.iter().for_each(|event| ordered.push(event));
            ordered.sort();
            prop_assert!(events.len() >= most || ordered.floor() == 7);
            events.retain(|event| event.time() >= ordered.floor());
            let found = (0..).map_while(|i| ordered.get(i));
            let mut found: Vec<_> = found.map(|change| Event::new(change.time, change.turn, *change.share)).collect();
            prop_assert!(found.is_sorted_by_key(Event::moment));
            let whole = |event: &Event| (event.moment(), event.share.bytes);
            events.sort_by_key(whole);
            found.sort_by_key(whole);
            prop_assert_eq!(found, events);
        }
    }
}
