//! A ring of words with one writer and one reader, in memory that both map.
//!
//! `head` counts the words ever committed, `tail` those ever read; both only grow, so nothing
//! is lost or seen twice as long as each side publishes its own counter with release and
//! reads the other's with acquire order. The writer keeps copies of both and reads the
//! reader's line only when its copy says that the ring may be full. Both counters stay even,
//! so that two words never wrap.

use core::mem::offset_of;
use core::ptr::null;
use core::sync::atomic::{Ordering, compiler_fence};

use crate::arch::prefetch;
use crate::atomic::AtomicU64;
use crate::event::{EVENT_WORDS_MAX, Event, Kind, compact_stamp};
use crate::layout::{FIRST, FURTHER, Slot};

/// Words between the event that is written and the line that is prefetched: 16 to 128 measured
/// alike, 2,048 worse.
const FETCH_AHEAD: usize = 32;
const _: () = assert!(EVENT_WORDS_MAX <= FURTHER.ring_words && EVENT_WORDS_MAX <= FIRST.ring_words);

/// The ring has no room for the event now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Where a ring lies, and its length in words (a power of two).
#[derive(Clone, Copy)]
struct Place {
    words: *const AtomicU64,
    length: u64,
}

impl Place {
    /// Index of the word at a position.
    fn index(self, position: u64) -> u64 {
        // A writer without a ring has no length.
        position & self.length.wrapping_sub(1)
    }
}

/// The writing side. All zeroes is a writer without a ring, for which every reservation is refused.
///
/// A lap is one time around the ring. [`Writer::has_room`] never grants words beyond the lap's end,
/// so that the hot path finds a word's place by one addition; an event that goes beyond it is
/// granted by [`Writer::refill`].
#[repr(C)]
pub struct Writer {
    ring: Place,
    /// Where the word at position 0 would lie if the lap had begun there.
    lap: *const AtomicU64,
    slot: *const Slot,
    head: u64,
    /// Up to where `head` may go before the slow path has to run.
    limit: u64,
}

impl Writer {
    /// Bytes before what the hot path touches.
    pub const HOT_OFFSET: usize = offset_of!(Writer, lap);

    /// A writer without a ring.
    pub const NONE: Writer =
        Writer { ring: Place { words: null(), length: 0 }, lap: null(), slot: null(), head: 0, limit: 0 };

    /// A writer at the start of an empty ring of `length` words.
    ///
    /// # Safety
    /// `slot` and the `length` words at `words`, a power of two, stay mapped for as long as the
    /// writer, or the slot that it returns, is used, and it is the only writer of both.
    pub unsafe fn new(slot: *const Slot, words: *const AtomicU64, length: usize) -> Writer {
        Writer { ring: Place { words, length: length as u64 }, lap: words, slot, head: 0, limit: 0 }
    }

    /// The slot, if the writer has a ring.
    #[inline(always)]
    pub fn slot(&self) -> Option<&'static Slot> {
        // SAFETY: null or, by the contract of `new`, a slot that stays mapped for as long as
        // it is used: in the program, that is the life of the process.
        unsafe { self.slot.as_ref() }
    }

    /// True if `words` more surely fit: the hot path's only check.
    #[inline(always)]
    pub fn has_room(&self, words: usize) -> bool {
        self.head + words as u64 <= self.limit
    }

    /// Reads the reader's progress: `Ok` if an event of `words` words fits now. At most `stride` words
    /// are granted before the next refill, so that the caller's slow path runs at least that often.
    pub fn refill(&mut self, words: usize, stride: u64) -> Result<(), Full> {
        let Some(slot) = self.slot() else { return Err(Full) };
        let Place { words: first, length } = self.ring;
        let end = slot.tail.load(Ordering::Acquire) + length;
        let needed = self.head + words as u64;
        if needed > end {
            return Err(Full);
        }
        let lap = self.head - self.ring.index(self.head);
        self.lap = first.wrapping_sub(lap as usize);
        // A signal handler that interrupts this never finds room in a lap that has not begun.
        compiler_fence(Ordering::SeqCst);
        self.limit = end.min((self.head + stride).max(needed)).min(lap + length);
        Ok(())
    }

    /// Words of the ring.
    pub fn ring_words(&self) -> u64 {
        self.ring.length
    }

    /// Words committed and not yet read, as far as the writer can see.
    pub fn backlog(&self) -> u64 {
        self.slot().map_or(0, |slot| self.head - slot.tail.load(Ordering::Acquire))
    }

    /// Announces that a stamp is about to be taken: until [`Writer::close`], the reader holds back
    /// everything later than the ring's last event.
    #[inline(always)]
    pub fn open(&self) {
        if let Some(slot) = self.slot() {
            slot.open.store(1, Ordering::Relaxed);
            // The commit, a release, makes it visible before the event is. Keep the compiler from
            // sinking it below the stamp.
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// The event is committed, or dropped.
    #[inline(always)]
    pub fn close(&self) {
        if let Some(slot) = self.slot() {
            slot.open.store(0, Ordering::Release);
        }
    }

    fn put(&self, position: u64, word: u64) {
        // SAFETY: an index into the ring; mapped by the contract of `new`.
        unsafe { (*self.ring.words.add(self.ring.index(position) as usize)).store(word, Ordering::Relaxed) }
    }

    fn commit(&mut self, words: u64) {
        self.head += words;
        // SAFETY: room was granted, so there is a slot.
        unsafe { &*self.slot }.head.store(self.head, Ordering::Release);
    }

    /// Writes and commits a release or a compact acquire: `second` makes its second word when the
    /// slot is marked open. [`Writer::has_room`] must have said that there is room for two words.
    /// The slot, still open.
    #[inline(always)]
    pub fn push_pair(&mut self, first: u64, second: impl FnOnce() -> u64) -> &'static Slot {
        debug_assert!(self.has_room(2));
        // SAFETY: room was granted, so there is a slot; it stays mapped as `slot` says.
        let slot = unsafe { &*self.slot };
        self.fetch_ahead();
        slot.open.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let second = second();
        let at = self.lap.wrapping_add(self.head as usize);
        // SAFETY: `limit` lies in the lap that `lap` is for, so both words lie in the ring; mapped by
        // the contract of `new`.
        unsafe {
            (*at).store(first, Ordering::Relaxed);
            (*at.add(1)).store(second, Ordering::Relaxed);
        }
        self.head += 2;
        slot.head.store(self.head, Ordering::Release);
        slot
    }

    /// Prefetches a cache line of the ring, to write to, some time before it is written. The reader
    /// has it: without this every fourth event waits some 30 ns until it comes back, with stores
    /// piling up behind it. At the end of a lap it fetches what lies behind the ring.
    #[inline(always)]
    fn fetch_ahead(&self) {
        prefetch::to_write(self.lap.wrapping_add(self.head as usize + FETCH_AHEAD));
    }

    /// Writes and commits an event without a text, in two words if they will do. Room for
    /// [`Kind::size`](crate::event::Kind::size) must have been granted.
    pub fn push(&mut self, event: Event) {
        if let Some(first) = event.compact() {
            self.push_pair(first, || match event.kind {
                Kind::Free => event.stamp,
                _ => compact_stamp(event.stamp, event.stack),
            });
            return;
        }
        for (at, word) in (self.head..).zip(event.encode()).take(event.kind.words()) {
            self.put(at, word);
        }
        self.commit(event.kind.size(0) as u64);
    }

    /// Writes and commits an event with its text (at most [`TEXT_MAX`](crate::event::TEXT_MAX)
    /// bytes; `event.bytes` is its length). Room for [`Kind::size`](crate::event::Kind::size) must
    /// have been granted.
    pub fn push_text(&mut self, event: Event, text: impl Iterator<Item = u64>) {
        let end = self.put_all(self.head + 3, text);
        self.put_head(event);
        self.commit((end - self.head).next_multiple_of(2));
    }

    fn put_head(&self, event: Event) {
        for (i, word) in event.encode().iter().take(3).enumerate() {
            self.put(self.head + i as u64, *word);
        }
    }

    fn put_all(&self, mut position: u64, words: impl Iterator<Item = u64>) -> u64 {
        for word in words {
            self.put(position, word);
            position += 1;
        }
        position
    }
}

/// The reading side.
pub struct Reader {
    ring: Place,
    slot: *const Slot,
    tail: u64,
}

/// The ring holds words that no writer of this version writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

impl Reader {
    /// A reader at the start of a ring of `length` words.
    ///
    /// # Safety
    /// As for [`Writer::new`], and it is the only reader.
    pub unsafe fn new(slot: *const Slot, words: *const AtomicU64, length: usize) -> Reader {
        Reader { ring: Place { words, length: length as u64 }, slot, tail: 0 }
    }

    /// Words of the ring.
    pub fn ring_words(&self) -> u64 {
        self.ring.length
    }

    /// The slot.
    pub fn slot(&self) -> &Slot {
        // SAFETY: live by the contract of `new`.
        unsafe { &*self.slot }
    }

    /// Passes all that was committed since the last time to `each`, in one or two pieces, then
    /// frees the room. On [`Corrupt`] it is skipped.
    pub fn read(&mut self, mut each: impl FnMut(&[AtomicU64])) -> Result<(), Corrupt> {
        let head = self.slot().head.load(Ordering::Acquire);
        let Place { words, length } = self.ring;
        let count = head.wrapping_sub(self.tail);
        // A head that ran away from the tail is as good as garbage: the other side may be hostile.
        let sane = count <= length;
        if sane && count > 0 {
            let start = self.ring.index(self.tail);
            let first = count.min(length - start);
            // SAFETY: inside the ring, mapped by the contract of `new`; atomics
            // may be written to meanwhile.
            unsafe {
                each(core::slice::from_raw_parts(words.add(start as usize), first as usize));
                each(core::slice::from_raw_parts(words, (count - first) as usize));
            }
        }
        self.tail = head;
        self.slot().tail.store(head, Ordering::Release);
        if sane { Ok(()) } else { Err(Corrupt) }
    }
}
