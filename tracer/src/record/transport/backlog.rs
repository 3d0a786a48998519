//! What was read from one ring and cannot be passed on yet, as the words that lay in it.

use std::sync::atomic::{AtomicU64, Ordering};

use memtrace_wire::event::{Event, Pair, pair_address};

/// Events of one writer, in its own order.
pub struct Backlog {
    words: Vec<u64>,
    /// Where the first event begins.
    next: usize,
    /// Stamp of the last event that was taken.
    taken: u64,
    /// The latest stamp that one of those was written with.
    written: u64,
    /// Ticks that the next one is later at least.
    step: u64,
    /// Up to where stamps are known, and the last of them.
    seen: (usize, u64),
}

/// Steps that a stamp is taken ahead of what was written at most: a microsecond, or 100 ticks of a
/// slower counter.
const AHEAD_STEPS: u64 = 100;

/// This many words that no writer of this version writes, or that follow such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbled(pub usize);

impl Backlog {
    /// Nothing yet, from a writer that began at `stamp` and whose events are `step` ticks apart at
    /// least.
    pub fn new(stamp: u64, step: u64) -> Backlog {
        Backlog { words: Vec::new(), next: 0, taken: stamp, written: stamp, step, seen: (0, stamp) }
    }

    /// The stamp as it is taken: a thread's own order is the true one, and times in rows are to
    /// show it. A signal handler's event may have been stamped before the event it had to wait for,
    /// and some machines' TSC advances by 10 ns at a time.
    /// Where events come faster than that for long, their order is all that is left: no stamp is to
    /// run far ahead of the events of other threads.
    #[inline(always)]
    fn later(&self, stamp: u64) -> u64 {
        let least = self.taken.saturating_add(self.step);
        if least <= stamp {
            return stamp;
        }
        let is_far = least.saturating_sub(self.written.max(stamp)) > AHEAD_STEPS * self.step;
        if is_far { stamp.max(self.taken.saturating_add(1)) } else { least }
    }

    /// Stamp of the last event that was taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Words that have not been taken.
    pub fn words(&self) -> usize {
        self.words.len() - self.next
    }

    /// True if all has been taken.
    pub fn is_empty(&self) -> bool {
        self.next == self.words.len()
    }

    /// Adds words; how many they are.
    pub fn append(&mut self, words: &[AtomicU64]) -> usize {
        if self.next > 0 {
            // What is left has usually been taken to the end.
            self.words.drain(..self.next);
            self.seen = self.seen.0.checked_sub(self.next).map_or((0, self.taken), |at| (at, self.seen.1));
            self.next = 0;
        }
        self.words.extend(words.iter().map(|word| word.load(Ordering::Relaxed)));
        words.len()
    }

    /// Stamp of the last event that was added, or taken.
    pub fn last_stamp(&mut self) -> u64 {
        let (mut at, mut last) = self.seen;
        if at < self.next {
            (at, last) = (self.next, self.taken);
        }
        while let Some((event, size)) = Event::decode(&self.words[at..], last) {
            last = last.max(event.stamp);
            at += size;
        }
        self.seen = (at, last);
        last
    }

    /// Stamp of the next event. What is garbled is dropped to its end.
    pub fn front_stamp(&mut self) -> Result<Option<u64>, Garbled> {
        if self.is_empty() {
            return Ok(None);
        }
        match Event::decode(&self.words[self.next..], self.taken) {
            Some((event, _)) => Ok(Some(self.later(event.stamp))),
            None => {
                let words = self.words.len() - self.next;
                self.next = self.words.len();
                Err(Garbled(words))
            }
        }
    }

    /// Takes the next event if it is not later than `until`, with its text. Its stamp is later than
    /// that of the one before it.
    #[inline(always)]
    pub fn next_until(&mut self, until: u64) -> Option<(Event, &[u8])> {
        let words = &self.words[self.next..];
        let (mut event, size) = Event::decode(words, self.taken)?;
        let written = event.stamp;
        event.stamp = self.later(written);
        if event.stamp > until {
            return None;
        }
        (self.taken, self.written) = (event.stamp, self.written.max(written));
        self.next += size;
        let text = if event.kind.has_text() { bytes(&words[3..], event.bytes as usize) } else { &[] };
        Some((event, text))
    }

    /// The same for an acquire of a heap block in two words or a release of one: what comes by the
    /// million.
    #[inline(always)]
    pub fn next_pair_until(&mut self, until: u64) -> Option<Pair> {
        let [first, second, ..] = *self.words.get(self.next..)? else { return None };
        let mut pair = Pair::decode(first, second, self.taken)?;
        let written = pair.stamp;
        pair.stamp = self.later(written);
        if pair.stamp > until {
            return None;
        }
        (self.taken, self.written) = (pair.stamp, self.written.max(written));
        self.next += 2;
        Some(pair)
    }

    /// Address of the heap event that comes after this many others. (Among words of a text, any
    /// number.)
    #[inline(always)]
    pub fn coming(&self, after: usize) -> Option<u64> {
        self.words.get(self.next + 2 * after).map(|word| pair_address(*word))
    }
}

/// The first bytes of some words.
fn bytes(words: &[u64], length: usize) -> &[u8] {
    let length = length.min(size_of_val(words));
    // SAFETY: every byte of a u64 is one; x86-64 stores the lowest first, as the writer packs them.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), length) }
}

#[cfg(test)]
mod tests {
    use memtrace_wire::event::Kind;
    use proptest::prelude::*;

    use super::*;

    fn encoded(events: &[(u64, bool)]) -> Vec<AtomicU64> {
        let mut words = Vec::new();
        for (stamp, long) in events {
            let (kind, bytes) = if *long { (Kind::MapEnd, 1 << 20) } else { (Kind::Malloc, 100) };
            let event = Event { kind, address: 64 * stamp, stamp: *stamp, bytes, extra: 7, stack: 3 };
            match event.compact() {
                Some(first) => words.extend([first, memtrace_wire::event::compact_stamp(*stamp, 3)]),
                None => words.extend(event.encode()),
            }
        }
        words.into_iter().map(AtomicU64::new).collect()
    }

    proptest! {
        /// However it is cut, everything comes out once, in order, and the last stamp is known
        /// beforehand.
        #[test]
        fn takes_out_what_was_put_in(
            mut stamps in prop::collection::vec((1..1_000_000u64, any::<bool>()), 1..200),
            cut in 0..200usize,
            until in 0..1_000_000u64,
        ) {
            stamps.sort();
            let cut = cut.min(stamps.len());
            let mut backlog = Backlog::new(0, 0);
            let mut taken = Vec::new();
            for (part, until) in [(&stamps[..cut], until), (&stamps[cut..], u64::MAX)] {
                backlog.append(&encoded(part));
                let known = part.last().map_or(backlog.last_stamp(), |last| last.0);
                prop_assert_eq!(backlog.last_stamp(), known);
                while let Some(next) = backlog.next_until(until) {
                    let (event, _) = next;
                    prop_assert!(event.stamp <= until && event.stack == 3);
                    taken.push((event.stamp, event.kind == Kind::MapEnd));
                    while let Some(pair) = backlog.next_pair_until(until) {
                        prop_assert!(pair.stamp <= until && pair.stack == 3 && pair.bytes == 100);
                        prop_assert!(pair.call == Some(0) && pair.address == 64 * pair.stamp);
                        taken.push((pair.stamp, false));
                    }
                }
                let left = backlog.front_stamp();
                prop_assert!(matches!(left, Ok(None)) || left.unwrap().unwrap() > until);
            }
            prop_assert_eq!(taken, stamps);
        }

        /// Events that are nearer to each other than a step stay in order, and near their time.
        #[test]
        fn no_stamp_runs_far_ahead(apart in 1..6u64, step in 1..30u64) {
            let stamps: Vec<(u64, bool)> = (1..3_000).map(|number| (10 + number * apart, false)).collect();
            let mut backlog = Backlog::new(0, step);
            backlog.append(&encoded(&stamps));
            let mut last = 0;
            for (stamp, _) in stamps {
                let taken = backlog.next_pair_until(u64::MAX).expect("one for each").stamp;
                prop_assert!(taken > last && taken >= stamp && taken - stamp <= (AHEAD_STEPS + 1) * step);
                last = taken;
            }
        }

        /// What a signal handler has written late keeps a step between its events.
        #[test]
        fn late_events_are_steps_apart(late in 1..500u64, step in 1..30u64) {
            let stamps: Vec<(u64, bool)> =
                [100_000].into_iter().chain(1..=late).map(|stamp| (stamp, false)).collect();
            let mut backlog = Backlog::new(0, step);
            backlog.append(&encoded(&stamps));
            let taken = (0..AHEAD_STEPS.min(late)).map(|_| backlog.next_pair_until(u64::MAX).unwrap().stamp);
            let taken: Vec<u64> = taken.collect();
            prop_assert!(taken.windows(2).all(|two| two[1] == two[0] + step));
        }

        #[test]
        fn garbled_words_end_it(words in prop::collection::vec(any::<u64>(), 1..100)) {
            let mut backlog = Backlog::new(5, 3);
            let words: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
            backlog.append(&words);
            backlog.last_stamp();
            while backlog.front_stamp().is_ok_and(|stamp| stamp.is_some()) {
                prop_assert!(backlog.next_until(u64::MAX).is_some());
            }
            prop_assert!(backlog.is_empty());
        }
    }
}
