//! What the ring costs by itself: cargo bench --bench ring
//!
//! One thread writes a part of the ring and reads it again, so that both sides find their lines in
//! the cache: a lower bound for the probe's hot path and for the drain's first pass over events. A round
//! is EVENTS of them.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use divan::Bencher;
use divan::counter::ItemsCount;
use memtrace_wire::event::{Event, Kind};
use memtrace_wire::layout::{FIRST, Slot};
use memtrace_wire::ring::{Reader, Writer};

const RING_WORDS: usize = FIRST.ring_words;
const EVENTS: usize = RING_WORDS / 8;

fn main() {
    divan::main();
}

struct Ring {
    writer: Writer,
    reader: Reader,
    _memory: (Box<Slot>, Vec<AtomicU64>),
}

fn ring() -> Ring {
    // SAFETY: a slot is made of atomics only, for which zero is a valid value.
    let slot = Box::new(unsafe { std::mem::MaybeUninit::<Slot>::zeroed().assume_init() });
    let words: Vec<AtomicU64> = (0..RING_WORDS).map(|_| AtomicU64::new(0)).collect();
    let (at, first) = (&raw const *slot, words.as_ptr());
    // SAFETY: both live on the heap, as long as the ends that are returned with
    // them; each end is made once.
    let (writer, reader) =
        unsafe { (Writer::new(at, first, RING_WORDS), Reader::new(at, first, RING_WORDS)) };
    Ring { writer, reader, _memory: (slot, words) }
}

impl Ring {
    fn write(&mut self, event: impl Fn(u64) -> Event) {
        for number in 0..EVENTS as u64 {
            let event = event(number);
            let words = event.kind.size(0);
            if !self.writer.has_room(words) {
                self.writer.refill(words, RING_WORDS as u64).expect("what was written has been read");
            }
            self.writer.open();
            self.writer.push(event);
            self.writer.close();
        }
    }

    fn read(&mut self) -> u64 {
        let mut sum = 0u64;
        let add = |words: &[AtomicU64]| {
            sum = words.iter().fold(sum, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
        };
        self.reader.read(add).expect("the writer is sane");
        sum
    }
}

/// A block that comes and goes: two words each time.
fn usual(number: u64) -> Event {
    let kind = if number.is_multiple_of(2) { Kind::Malloc } else { Kind::Free };
    let bytes = if kind == Kind::Free { 0 } else { 40 };
    Event { kind, address: 0x7f00_0000_0000 + number / 2 * 64, stamp: number, bytes, extra: 0, stack: 0 }
}

/// The longest event without a text.
fn mapping(number: u64) -> Event {
    Event { kind: Kind::MapEnd, address: number * 4096, stamp: number, bytes: 4096, extra: 3, stack: 0 }
}

#[divan::bench]
fn malloc_and_free(bencher: Bencher) {
    write_and_read(bencher, usual);
}

#[divan::bench]
fn mappings(bencher: Bencher) {
    write_and_read(bencher, mapping);
}

fn write_and_read(bencher: Bencher, event: impl Fn(u64) -> Event) {
    let mut ring = ring();
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        ring.write(&event);
        black_box(ring.read())
    });
}
