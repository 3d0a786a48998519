//! The ring and its slot under every order of memory accesses that loom knows: `scripts/orders`
//! runs these. A store that publishes too little fails them: `Relaxed` in place of `Release` where
//! the writer commits, where it closes the slot, or where a slot becomes active or free.
//!
//! The ring is the crate's own code. What the probe and the tracer do around it is written here
//! again, with their orders. Two things differ from what runs:
//!
//! - A stamp is an atomic addition that publishes the stores before it. A processor's counter does
//!   not: the tracer subtracts `Clock::margin` for the store buffer, and this model takes that to be
//!   enough.
//! - loom executes no load after a later store of its thread, which `Relaxed` accesses allow: it does
//!   not notice when the reader frees room by a `Relaxed` store, or the writer reads that so.
#![cfg(loom)]

use std::ops::Range;

use loom::model::Builder;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use memtrace_wire::event::{Event, Kind};
use memtrace_wire::layout::{ACTIVE, CLAIMING, FREE, OWNER_DIED, Slot};
use memtrace_wire::ring::{Reader, Writer};

/// Room for two pairs, or for one event of another kind.
const RING_WORDS: usize = 4;

struct Shared {
    slot: Slot,
    words: Vec<AtomicU64>,
    /// What stamps are taken from.
    clock: AtomicU64,
    /// The kernel's side of the futex that the writer sleeps on.
    futex: (Mutex<()>, Condvar),
}

impl Shared {
    /// Made by a thread of its own: loom never shows a thread that has yielded what it stored before,
    /// and with zeroes that the reader had stored, stores that publish too little went unnoticed.
    fn new() -> Arc<Shared> {
        let make = || Shared {
            slot: Slot::default(),
            words: (0..RING_WORDS).map(|_| AtomicU64::default()).collect(),
            clock: AtomicU64::new(1),
            futex: (Mutex::new(()), Condvar::new()),
        };
        Arc::new(thread::spawn(make).join().unwrap())
    }

    /// The caller is the only writer.
    fn writer(&self) -> Writer {
        // SAFETY: the memory outlives all threads; one writer at a time.
        unsafe { Writer::new(&raw const self.slot, self.words.as_ptr(), RING_WORDS) }
    }

    /// The caller is the only reader.
    fn reader(&self) -> Reader {
        // SAFETY: as above.
        unsafe { Reader::new(&raw const self.slot, self.words.as_ptr(), RING_WORDS) }
    }

    fn stamp(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::AcqRel)
    }

    /// As `claim_slot` of the probe: false if another has it.
    fn claim(&self, owner: u32) -> bool {
        let slot = &self.slot;
        if slot.state.load(Ordering::Relaxed) != FREE
            || slot.state.compare_exchange(FREE, CLAIMING, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            return false;
        }
        slot.pid.store(owner, Ordering::Relaxed);
        slot.head.store(0, Ordering::Relaxed);
        slot.tail.store(0, Ordering::Relaxed);
        slot.open.store(0, Ordering::Relaxed);
        slot.owner.futex.store(owner, Ordering::Relaxed);
        slot.state.store(ACTIVE, Ordering::Release);
        true
    }

    /// What the kernel does when the owner ends.
    fn die(&self) {
        self.slot.owner.futex.fetch_or(OWNER_DIED, Ordering::Release);
    }

    fn is_dead(&self) -> bool {
        self.slot.owner.futex.load(Ordering::Acquire) & OWNER_DIED != 0
    }

    /// As `sleep_until_read` of the probe, without its time limit: a wake-up that is lost is a
    /// deadlock.
    fn sleep_until_read(&self, writer: &mut Writer, words: usize) {
        self.slot.waiting.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if writer.refill(words, u64::MAX / 2).is_err() {
            let (lock, woken) = &self.futex;
            let mut held = lock.lock().unwrap();
            while self.slot.waiting.load(Ordering::Relaxed) == 1 {
                held = woken.wait(held).unwrap();
            }
        }
        self.slot.waiting.store(0, Ordering::Relaxed);
    }

    /// As `wake_writer` of the drain.
    fn wake_writer(&self) {
        fence(Ordering::SeqCst);
        if self.slot.waiting.load(Ordering::Relaxed) == 1 {
            self.slot.waiting.store(0, Ordering::Relaxed);
            drop(self.futex.0.lock().unwrap());
            self.futex.1.notify_one();
        }
    }
}

/// Runs `threads` in every order; at most so many times is one interrupted for another where it need
/// not be. Every order of the larger models would take minutes.
fn explore(interrupted: Option<usize>, threads: fn()) {
    let mut model = Builder::new();
    model.preemption_bound = model.preemption_bound.or(interrupted);
    model.check(threads);
}

/// The first has two words, the second four: it goes around the end of the ring.
fn event(number: u64) -> Event {
    let kind = if number % 2 == 1 { Kind::Free } else { Kind::MapEnd };
    let more = if kind == Kind::Free { 0 } else { number };
    Event { kind, address: 16 * number, stamp: number, bytes: more, extra: more, stack: 0 }
}

/// Writes events with these numbers; `wait` is called while there is no room.
fn write(shared: &Shared, numbers: Range<u64>, mut wait: impl FnMut(&mut Writer, usize)) {
    let mut writer = shared.writer();
    for event in numbers.map(event) {
        let words = event.kind.size(0);
        while !writer.has_room(words) && writer.refill(words, u64::MAX / 2).is_err() {
            wait(&mut writer, words);
        }
        writer.open();
        writer.push(event);
        writer.close();
    }
}

/// Takes out all events.
fn read(reader: &mut Reader) -> Vec<Event> {
    let mut words = Vec::new();
    let outcome = reader.read(|piece| words.extend(piece.iter().map(|word| word.load(Ordering::Relaxed))));
    outcome.expect("the head is sane");
    let (mut at, mut near, mut events) = (0, 0, Vec::new());
    while let Some((event, size)) = Event::decode(&words[at..], near) {
        (at, near) = (at + size, event.stamp);
        events.push(event);
    }
    assert_eq!(at, words.len(), "torn: {words:x?}");
    events
}

#[test]
fn what_is_written_is_read_whole_once_and_in_order() {
    explore(None, || {
        let shared = Shared::new();
        let writing = shared.clone();
        let writer = thread::spawn(move || write(&writing, 1..3, |_, _| thread::yield_now()));
        let (mut reader, mut found) = (shared.reader(), Vec::new());
        while found.len() < 2 {
            found.extend(read(&mut reader));
            thread::yield_now();
        }
        assert_eq!(found, [event(1), event(2)]);
        writer.join().unwrap();
    });
}

#[test]
fn a_writer_that_sleeps_until_there_is_room_is_woken() {
    explore(Some(4), || {
        let shared = Shared::new();
        let writing = shared.clone();
        let wait = move |writer: &mut Writer, words| writing.sleep_until_read(writer, words);
        let writing = shared.clone();
        let writer = thread::spawn(move || write(&writing, 1..3, wait));
        let (mut reader, mut found) = (shared.reader(), 0);
        while found < 2 {
            let count = read(&mut reader).len();
            // The drain does so each time: that would make up for a wake-up that was lost.
            if count > 0 {
                shared.wake_writer();
            }
            found += count;
            thread::yield_now();
        }
        writer.join().unwrap();
    });
}

/// The tracer passes on what is not later than the horizon (`Drain`).
#[test]
fn no_event_is_earlier_than_a_horizon_that_was_passed() {
    explore(None, || {
        let shared = Shared::new();
        let writing = shared.clone();
        let writer = thread::spawn(move || {
            let mut writer = writing.writer();
            writer.refill(2, RING_WORDS as u64).expect("it is empty");
            for _ in 0..2 {
                writer.push_pair(event(1).compact().unwrap(), || writing.stamp());
                writer.close();
            }
        });
        let (mut reader, mut last, mut horizon) = (shared.reader(), 0, 0);
        let mut round = || {
            let safe = shared.stamp();
            let is_open = shared.slot.open.load(Ordering::Acquire) != 0;
            for event in read(&mut reader) {
                assert!(event.stamp > horizon, "{} is late: {horizon} was passed", event.stamp);
                last = event.stamp;
            }
            horizon = horizon.max(if is_open { safe.min(last) } else { safe });
        };
        round();
        round();
        writer.join().unwrap();
        round();
        assert_ne!(last, 0);
    });
}

#[test]
fn a_slot_has_one_owner_and_what_a_dead_one_wrote_is_its_own() {
    explore(Some(4), || {
        let shared = Shared::new();
        let threads = [1u32, 3].map(|owner| {
            let shared = shared.clone();
            thread::spawn(move || {
                let claimed = shared.claim(owner);
                if claimed {
                    assert_eq!(shared.writer().backlog(), 0, "an earlier reader's tail");
                    write(&shared, u64::from(owner)..u64::from(owner) + 1, |_, _| panic!("it is empty"));
                    shared.die();
                }
                claimed
            })
        });
        // As the drain: it meets a writer, reads until that is dead and the ring empty, frees.
        let mut met = Vec::new();
        for _ in 0..2 {
            if shared.slot.state.load(Ordering::Acquire) == ACTIVE {
                let pid = shared.slot.pid.load(Ordering::Relaxed);
                let (mut reader, mut found) = (shared.reader(), Vec::new());
                loop {
                    let dead = shared.is_dead();
                    found.extend(read(&mut reader));
                    if dead {
                        break;
                    }
                    thread::yield_now();
                }
                assert_eq!(found, [event(u64::from(pid))]);
                met.push(pid);
                shared.slot.state.store(FREE, Ordering::Release);
            }
            thread::yield_now();
        }
        let claimed = threads.map(|thread| thread.join().unwrap());
        assert!(claimed[0] || claimed[1], "one is first");
        assert!(met.len() <= claimed.iter().filter(|claimed| **claimed).count());
    });
}
