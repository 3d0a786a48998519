//! Reads the rings and puts their events in the order in which they happened.
//!
//! What may be passed on is bounded by a horizon: a ring whose `open` flag is down will only ever
//! add events stamped after the flag was read; one whose flag is up, none before its last event.
//! The minimum over all rings, less a margin for the store buffer, is the horizon; no delay is
//! assumed bounded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use memtrace_wire::arch::page::bytes as page_bytes;
use memtrace_wire::event::Event;
use memtrace_wire::layout::{COLLECT_WAITING, ORIGIN_FORK, OWNER_DIED, Slot};
use memtrace_wire::ring::Reader;

use super::backlog::{Backlog, Garbled};
use super::futex;
use super::segments::{Place, Segments};

/// The thread that writes into a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Names the process image together with the pid.
    pub image: u64,
    /// The image it was forked from, if it was.
    pub parent_image: u64,
    /// Stamp of the claim.
    pub claimed: u64,
    /// True if the image began by fork.
    pub forked: bool,
}

/// Where ordered events go.
pub trait Sink {
    /// A stamp, no later than the horizon, up to which all events are wanted before any other.
    fn pause(&mut self, horizon: u64) -> Option<u64>;
    /// They have been passed on.
    fn paused(&mut self, stamp: u64);
    /// A ring was claimed; the handle names its writer from now on.
    fn writer(&mut self, writer: Writer) -> u32;
    /// Takes the writer's next events as long as they are not later than `until` and are of heap
    /// blocks. How many were earlier than `passed_on`.
    fn heap_events(&mut self, writer: u32, events: &mut Backlog, until: u64, passed_on: u64) -> u64;
    /// The writer's next event, which may also be of a heap block.
    fn event(&mut self, writer: u32, event: Event, text: &[u8]);
    /// The writer is gone and all it wrote has been passed on.
    fn writer_gone(&mut self, writer: u32, usage: RingUsage);
}

/// What a ring has seen.
#[derive(Debug, Clone, Copy, Default)]
pub struct RingUsage {
    /// Which ring: no other of the recording has this number.
    pub ring: usize,
    /// Events dropped.
    pub lost: u64,
    /// Nanoseconds the thread waited for room.
    pub waited_ns: u64,
    /// Bytes of the ring that were touched, and so are resident in the program.
    pub touched_bytes: u64,
}

struct Ring {
    reader: Reader,
    place: Place,
    writer: u32,
    backlog: Backlog,
    dead: bool,
    /// When its flag was first seen up, and a stamp from before that.
    open_since: Option<(Instant, u64)>,
    corrupt: u64,
}

/// The rings and what was read from them but not yet passed on.
pub struct Drain {
    segments: Segments,
    rings: Vec<Ring>,
    passed_on: u64,
    /// Events that came after later ones had been passed on.
    late: u64,
    /// Ticks that two events of one thread are apart at least, so that their times differ.
    step: u64,
}

/// A flag that stays up this long belongs to a thread that was stopped in mid-write. (One that only
/// had to wait for a processor came back after more than 100 ms on a loaded machine, and its event
/// was late.)
const OPEN_TOO_LONG: Duration = Duration::from_secs(2);

/// Rings full of words that may wait to be passed on before the writer has to wait too.
const BACKLOG_RINGS: u64 = 4;

impl Drain {
    /// Nothing read yet.
    pub fn new(segments: Segments) -> Drain {
        Drain { segments, rings: Vec::new(), passed_on: 0, late: 0, step: 1 }
    }

    /// Ticks that two events of one thread are apart at least, from now on.
    pub fn set_step(&mut self, step: u64) {
        self.step = step;
    }

    /// Events that came after later ones had been passed on.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// True if some ring still has an owner.
    pub fn has_writers(&self) -> bool {
        !self.rings.is_empty()
    }

    /// Reads the rings of all writers that were met once and passes on what can be ordered; `last`
    /// passes on everything. Returns the number of words read. `safe` is a stamp from before
    /// writers were last met, less the margin for the store buffer: a writer that comes later
    /// writes later.
    pub fn round(&mut self, safe: u64, sink: &mut impl Sink, last: bool) -> (usize, u64) {
        let mut horizon = if last { u64::MAX } else { safe };
        let mut read = 0;
        for ring in &mut self.rings {
            let (count, limit) = ring.read(safe, last);
            read += count;
            horizon = if last { horizon } else { horizon.min(limit) };
        }
        while let Some(stamp) = sink.pause(horizon) {
            self.pass_on(stamp, sink);
            sink.paused(stamp);
        }
        self.pass_on(horizon, sink);
        self.reap(sink);
        (read, horizon)
    }

    /// Finds rings that were claimed, and meets their writers in the order of their claims: a
    /// process that forked and then executed a program has two images under one pid, the second
    /// often in a lower slot. A segment is received before any process has it: a writer that is not
    /// met here claims later.
    pub fn meet_writers(&mut self, sink: &mut impl Sink) {
        let describe = |(place, slot): (Place, &Slot)| (place, describe(slot));
        let mut claimed: Vec<_> = self.segments.claimed().into_iter().map(describe).collect();
        claimed.sort_unstable_by_key(|(place, writer)| (writer.claimed, *place));
        for (place, writer) in claimed {
            let Some(reader) = self.segments.reader(place) else { continue };
            self.rings.push(Ring {
                reader,
                place,
                writer: sink.writer(writer),
                backlog: Backlog::new(writer.claimed, self.step),
                dead: false,
                open_since: None,
                corrupt: 0,
            });
        }
    }

    /// These writers are gone, though the kernel may not have marked them so: it does not mark what
    /// a thread held that executed a program and was not the first of its process (exec gives it
    /// that one's id, Linux fs/exec.c).
    pub fn reap_if(&mut self, is_gone: impl Fn(u32) -> bool) {
        self.rings.iter_mut().filter(|ring| is_gone(ring.writer)).for_each(|ring| ring.dead = true);
    }

    /// Merges by stamp. One ring is followed until it runs past the next one's first event, so that
    /// a single busy thread costs no heap operations.
    fn pass_on(&mut self, horizon: u64, sink: &mut impl Sink) {
        let mut heap: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::with_capacity(self.rings.len());
        for (index, ring) in self.rings.iter_mut().enumerate() {
            heap.extend(ring.front_stamp().map(|stamp| Reverse((stamp, index))));
        }
        while let Some(Reverse((first, index))) = heap.pop() {
            let until = heap.peek().map_or(horizon, |Reverse((stamp, _))| (*stamp).min(horizon));
            if first > until {
                // The earliest event of all lies beyond the horizon.
                return;
            }
            let ring = &mut self.rings[index];
            let writer = ring.writer;
            loop {
                self.late += sink.heap_events(writer, &mut ring.backlog, until, self.passed_on);
                let Some((event, text)) = ring.backlog.next_until(until) else { break };
                self.late += u64::from(event.stamp < self.passed_on);
                sink.event(writer, event, text);
            }
            self.passed_on = self.passed_on.max(ring.backlog.taken());
            heap.extend(ring.front_stamp().map(|stamp| Reverse((stamp, index))));
        }
    }

    fn reap(&mut self, sink: &mut impl Sink) {
        let is_over = |ring: &mut Ring| ring.dead && ring.backlog.is_empty();
        for ring in self.rings.extract_if(.., is_over) {
            sink.writer_gone(ring.writer, ring.usage());
            self.segments.free(ring.place, ring.reader);
        }
        self.segments.give_up_unused();
    }

    /// The process of this writer was sampled: it need not wait any longer.
    pub fn sampled(&self, writer: u32) {
        if let Some(ring) = self.rings.iter().find(|ring| ring.writer == writer) {
            ring.reader.slot().awaits_sample.store(0, Ordering::Release);
        }
    }

    /// Threads that wait for the request to collect garbage, and the word that it is made with.
    pub fn collectors(&self) -> impl Iterator<Item = (u32, &AtomicU32)> {
        let rings = self.rings.iter().map(|ring| (ring.writer, &ring.reader.slot().collect));
        rings.filter(|(_, word)| word.load(Ordering::Relaxed) == COLLECT_WAITING)
    }

    /// True if some writer wants to be read since the last time.
    pub fn rung(&self) -> bool {
        self.segments.rung()
    }

    /// Events that were lost because no slot was free.
    pub fn lost_without_slot(&self) -> u64 {
        self.segments.lost_without_slot()
    }

    /// What every ring in use has seen so far.
    pub fn usage(&self) -> impl Iterator<Item = (u32, RingUsage)> {
        self.rings.iter().map(|ring| (ring.writer, ring.usage()))
    }
}

impl Ring {
    /// Empties the ring; the last time in any case. Returns the number of words, and the stamp up
    /// to which nothing can be missing.
    fn read(&mut self, safe: u64, last: bool) -> (usize, u64) {
        let slot = self.reader.slot();
        // Order matters: death before the flag, the flag before the events.
        self.dead |= slot.owner.futex.load(Ordering::Acquire) & OWNER_DIED != 0;
        let open = slot.open.load(Ordering::Acquire) != 0;
        let mut count = 0;
        let ring_words = self.reader.ring_words();
        if self.dead || last || (self.backlog.words() as u64) < BACKLOG_RINGS * ring_words {
            let outcome = self.reader.read(|words| count += self.backlog.append(words));
            self.corrupt += if outcome.is_err() { ring_words / 2 } else { 0 };
            self.wake_writer();
        } else {
            // Another ring's writer was stopped in mid-write, and all wait for it. Nothing in this
            // one is earlier than what was read of it.
            return (0, self.backlog.last_stamp());
        }
        if self.dead || !open {
            self.open_since = None;
            return (count, u64::MAX);
        }
        let last_stamp = self.backlog.last_stamp();
        let (since, stamp) = *self.open_since.get_or_insert((Instant::now(), safe));
        // Old events are no sign of progress: they would hold all others back for ever.
        if count > 0 && last_stamp >= stamp {
            self.open_since = Some((Instant::now(), safe));
        } else if since.elapsed() > OPEN_TOO_LONG {
            return (count, u64::MAX);
        }
        (count, last_stamp)
    }

    /// There is room in the ring: wakes its writer if that waits for it.
    fn wake_writer(&self) {
        let waiting = &self.reader.slot().waiting;
        // What was read is published before this reads the flag; the writer checks for room after
        // it has set it.
        fence(Ordering::SeqCst);
        if waiting.load(Ordering::Relaxed) == 1 {
            waiting.store(0, Ordering::Relaxed);
            futex::wake(waiting);
        }
    }

    /// Stamp of the earliest event that was read and not passed on. Words that no probe can have
    /// written are dropped, counted.
    fn front_stamp(&mut self) -> Option<u64> {
        self.backlog.front_stamp().unwrap_or_else(|Garbled(words)| {
            // Most events have two.
            self.corrupt += (words as u64).div_ceil(2);
            None
        })
    }

    fn usage(&self) -> RingUsage {
        let slot = self.reader.slot();
        RingUsage {
            ring: self.place.number(),
            lost: slot.lost.load(Ordering::Relaxed).saturating_add(self.corrupt),
            waited_ns: slot.waited_ns.load(Ordering::Relaxed),
            touched_bytes: (slot.head.load(Ordering::Relaxed).min(self.reader.ring_words()) * 8)
                .next_multiple_of(page_bytes()),
        }
    }
}

fn describe(slot: &Slot) -> Writer {
    Writer {
        pid: slot.pid.load(Ordering::Relaxed),
        tid: slot.tid.load(Ordering::Relaxed),
        ppid: slot.ppid.load(Ordering::Relaxed),
        image: slot.image.load(Ordering::Relaxed),
        parent_image: slot.parent_image.load(Ordering::Relaxed),
        claimed: slot.claimed.load(Ordering::Relaxed),
        forked: slot.origin.load(Ordering::Relaxed) == ORIGIN_FORK,
    }
}
