//! The segments of the processes that are recorded: each comes with a hello and is given up when no
//! process has it any more.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use memtrace_wire::layout::{ACTIVE, FREE, Slot};
use memtrace_wire::ring::Reader;

use super::segment::Segment;

/// A segment whose threads are all gone is given up after this time: at once it would cost the
/// kernel more, and a forked child may be about to claim a slot. After a failure, later and later.
const UNUSED: Duration = Duration::from_millis(50);
const UNUSED_AT_MOST: Duration = Duration::from_secs(2);
/// One of which no slot was ever claimed: its process may not have mapped it yet, if it lives.
const NEVER_USED: Duration = Duration::from_secs(60);

/// A slot of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the segment.
    pub segment: u32,
    /// Index of the slot.
    pub slot: u32,
}

struct Used {
    segment: Segment,
    /// Slots that have a reader.
    known: Vec<bool>,
    readers: usize,
    /// Until no slot was claimed: how long it may take.
    unclaimed_until: Option<Instant>,
    /// When and after how long to give it up, if it has no readers then.
    due: Instant,
    patience: Duration,
}

impl Used {
    fn new(segment: Segment) -> Used {
        let now = Instant::now();
        Used {
            known: vec![false; segment.slot_count()],
            segment,
            readers: 0,
            unclaimed_until: Some(now + NEVER_USED),
            due: now + UNUSED,
            patience: UNUSED,
        }
    }

    /// Its process may still map it.
    fn is_awaited(&self, now: Instant) -> bool {
        self.unclaimed_until.is_some_and(|until| now < until) && self.segment.peer_lives()
    }

    fn postpone(&mut self, now: Instant) {
        self.patience = (2 * self.patience).min(UNUSED_AT_MOST);
        self.due = now + self.patience;
    }
}

/// All of them.
pub struct Segments {
    arriving: Receiver<Segment>,
    used: BTreeMap<u32, Used>,
    next: u32,
    lost_without_slot: u64,
}

impl Segments {
    /// None yet; what is sent to probes is received first.
    pub fn new(arriving: Receiver<Segment>) -> Segments {
        Segments { arriving, used: BTreeMap::new(), next: 0, lost_without_slot: 0 }
    }

    /// Takes in the segments that were sent to probes since, and passes on the slots that were
    /// claimed and have no reader yet; they are to have one now.
    pub fn claimed(&mut self) -> Vec<(Place, &Slot)> {
        while let Ok(segment) = self.arriving.try_recv() {
            self.used.insert(self.next, Used::new(segment));
            self.next += 1;
        }
        let mut claimed = Vec::new();
        for (number, used) in &mut self.used {
            for (index, slot) in used.segment.slots() {
                let active = slot.state.load(Ordering::Acquire) == ACTIVE;
                if active && !std::mem::replace(&mut used.known[index], true) {
                    used.readers += 1;
                    used.unclaimed_until = None;
                    claimed.push((Place { segment: *number, slot: index as u32 }, slot));
                }
            }
        }
        claimed
    }

    /// The reader of a slot that was just claimed.
    pub fn reader(&self, place: Place) -> Option<Reader> {
        let used = self.used.get(&place.segment)?;
        // SAFETY: a segment with readers is not given up, and `claimed` passes a slot on once.
        Some(unsafe { used.segment.reader(place.slot as usize) })
    }

    /// The slot's owner is gone, and its reader has read all.
    pub fn free(&mut self, place: Place, reader: Reader) {
        reader.slot().state.store(FREE, Ordering::Release);
        let Some(used) = self.used.get_mut(&place.segment) else { return };
        used.known[place.slot as usize] = false;
        used.readers -= 1;
        (used.due, used.patience) = (Instant::now() + UNUSED, UNUSED);
    }

    /// Gives up what no process has any more.
    pub fn give_up_unused(&mut self) {
        let now = Instant::now();
        let due = self.used.iter().filter(|(_, used)| used.readers == 0 && used.due <= now);
        for number in due.map(|(number, _)| *number).collect::<Vec<_>>() {
            let Some(mut used) = self.used.remove(&number) else { continue };
            if used.is_awaited(now) {
                used.postpone(now);
                self.used.insert(number, used);
                continue;
            }
            let lost = used.segment.header().lost_without_slot.swap(0, Ordering::Relaxed);
            self.lost_without_slot = self.lost_without_slot.saturating_add(lost);
            // SAFETY: it has no readers.
            match unsafe { used.segment.give_up() } {
                Ok(None) => {}
                Ok(Some(segment)) => {
                    let mut used = Used { segment, ..used };
                    used.postpone(now);
                    self.used.insert(number, used);
                }
                // What is written into it from now on.
                Err(_) => self.lost_without_slot = self.lost_without_slot.saturating_add(1),
            }
        }
    }

    /// True if some writer wants to be read since the last time.
    pub fn rung(&self) -> bool {
        let rung = |used: &Used| {
            let rung = &used.segment.header().rung;
            rung.load(Ordering::SeqCst) != 0 && rung.swap(0, Ordering::SeqCst) != 0
        };
        self.used.values().filter(|used| rung(used)).count() > 0
    }

    /// Events that were lost because no slot was free.
    pub fn lost_without_slot(&self) -> u64 {
        let lost = |used: &Used| used.segment.header().lost_without_slot.load(Ordering::Relaxed);
        self.lost_without_slot.saturating_add(self.used.values().map(lost).fold(0, u64::saturating_add))
    }
}

impl Place {
    /// A number that no other slot of the recording has.
    pub fn number(self) -> usize {
        (self.segment as usize) << 16 | self.slot as usize
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use memtrace_wire::handshake::Wants;

    use super::*;

    #[test]
    fn a_segment_is_given_up_some_time_after_its_last_thread() {
        let (send, arriving) = channel();
        let mut segments = Segments::new(arriving);
        let segment = Segment::create(Wants::First, false, std::process::id()).unwrap();
        segment.header().slots_used.store(3, Ordering::Relaxed);
        segment.header().lost_without_slot.store(5, Ordering::Relaxed);
        for (_, slot) in segment.slots().skip(1) {
            slot.state.store(ACTIVE, Ordering::Relaxed);
        }
        send.send(segment).unwrap();
        let places: Vec<Place> = segments.claimed().into_iter().map(|(place, _)| place).collect();
        assert_eq!(places.iter().map(|place| place.slot).collect::<Vec<_>>(), [1, 2]);
        assert!(segments.claimed().is_empty(), "each slot is passed on once");
        let readers: Vec<Reader> = places.iter().map(|place| segments.reader(*place).unwrap()).collect();
        for (place, reader) in places.into_iter().zip(readers) {
            segments.give_up_unused();
            assert_eq!(segments.used.len(), 1);
            segments.free(place, reader);
        }
        segments.give_up_unused();
        assert_eq!(segments.used.len(), 1, "not at once");
        segments.used.values_mut().for_each(|used| used.due = Instant::now());
        segments.give_up_unused();
        assert!(segments.used.is_empty());
        assert_eq!(segments.lost_without_slot(), 5);
    }

    #[test]
    fn a_slot_that_was_claimed_since_is_read_in_the_next_round() {
        let (send, arriving) = channel();
        let mut segments = Segments::new(arriving);
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let segment = Segment::create(Wants::First, false, ended.id()).unwrap();
        segment.header().slots_used.store(1, Ordering::Relaxed);
        send.send(segment).unwrap();
        assert!(segments.claimed().is_empty());
        let used = segments.used.values_mut().next().unwrap();
        used.due = Instant::now();
        used.segment.slots().for_each(|(_, slot)| slot.state.store(ACTIVE, Ordering::Relaxed));
        segments.give_up_unused();
        assert_eq!(segments.claimed().len(), 1);
        assert_eq!(segments.lost_without_slot(), 0);
    }

    #[test]
    fn one_that_was_never_claimed_is_kept_while_its_process_lives() {
        let (send, arriving) = channel();
        let mut segments = Segments::new(arriving);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        send.send(Segment::create(Wants::Further, false, child.id()).unwrap()).unwrap();
        assert!(segments.claimed().is_empty());
        let mut later = |expected: usize| {
            segments.used.values_mut().for_each(|used| used.due = Instant::now());
            segments.give_up_unused();
            assert_eq!(segments.used.len(), expected);
        };
        later(1);
        child.kill().and_then(|()| child.wait()).unwrap();
        later(0);
    }

    #[test]
    fn a_bell_is_heard_once() {
        let (send, arriving) = channel();
        let mut segments = Segments::new(arriving);
        for rung in [1, 0, 1] {
            let segment = Segment::create(Wants::Further, false, std::process::id()).unwrap();
            segment.header().rung.store(rung, Ordering::Relaxed);
            send.send(segment).unwrap();
        }
        segments.claimed();
        assert!(segments.rung());
        assert!(!segments.rung());
    }
}
