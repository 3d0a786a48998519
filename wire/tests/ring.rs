//! Whatever way writer and reader interleave, every event arrives once, in order, whole.

use std::sync::atomic::{AtomicU64, Ordering};

use memtrace_wire::event::{Event, FAILED, Kind, TEXT_MAX};
use memtrace_wire::layout::{FURTHER, Slot};
use memtrace_wire::ring::{Corrupt, Full, Reader, Writer};
use proptest::prelude::*;

/// The smaller of the two sizes: laps end more often.
const RING_WORDS: usize = FURTHER.ring_words;

struct Shared {
    slot: Box<Slot>,
    words: Vec<AtomicU64>,
}

fn shared() -> Shared {
    // SAFETY: a slot is made of atomics only, for which zero is a valid value.
    let slot = Box::new(unsafe { std::mem::MaybeUninit::<Slot>::zeroed().assume_init() });
    Shared { slot, words: (0..RING_WORDS).map(|_| AtomicU64::new(0)).collect() }
}

impl Shared {
    fn ends(&self) -> (Writer, Reader) {
        let (slot, words) = (&raw const *self.slot, self.words.as_ptr());
        // SAFETY: `self` outlives both ends in every test, and each is made once.
        unsafe { (Writer::new(slot, words, RING_WORDS), Reader::new(slot, words, RING_WORDS)) }
    }
}

/// The n-th event of a test: kind and length follow from n, so the reader can check it.
fn event(n: u64, text_length: usize) -> (Event, Vec<u8>) {
    let kinds = [Kind::Malloc, Kind::Free, Kind::MapEnd, Kind::SpanBegin, Kind::ReallocEnd];
    let kind = kinds[n as usize % kinds.len()];
    let text: Vec<u8> =
        if kind.has_text() { (0..text_length).map(|i| (i as u64 + n) as u8).collect() } else { vec![] };
    let bytes = match kind {
        Kind::Free => 0,
        Kind::SpanBegin => text.len() as u64,
        Kind::ReallocEnd => FAILED,
        _ => n * 3,
    };
    let extra = if kind == Kind::MapEnd { n } else { 0 };
    let stack = if matches!(kind, Kind::Free | Kind::SpanBegin) { 0 } else { n as u16 % 1024 };
    (Event { kind, address: n * 4, stamp: n + 1, bytes, extra, stack }, text)
}

fn write(writer: &mut Writer, n: u64, text_length: usize, stride: u64) -> Result<(), Full> {
    let (event, text) = event(n, text_length);
    let words = event.kind.size(text.len());
    if !writer.has_room(words) {
        writer.refill(words, stride)?;
    }
    writer.open();
    if event.kind.has_text() {
        writer.push_text(event, memtrace_wire::stack::words(&text))
    } else {
        writer.push(event)
    }
    writer.close();
    Ok(())
}

/// Reads all there is and passes the events to `each`; how many there were.
fn drain(reader: &mut Reader, mut each: impl FnMut(Event, &[u8])) -> Result<u64, Corrupt> {
    let mut words = Vec::new();
    reader.read(|part| words.extend(part.iter().map(|word| word.load(Ordering::Relaxed))))?;
    let (mut at, mut count, mut near) = (0, 0, 0);
    while let Some((event, size)) = Event::decode(&words[at..], near) {
        let text: Vec<u8> = words[at..at + size].iter().skip(3).flat_map(|word| word.to_le_bytes()).collect();
        each(event, if event.kind.has_text() { &text[..event.bytes as usize] } else { &[] });
        (at, near, count) = (at + size, event.stamp, count + 1);
    }
    assert!(count == 0 || at == words.len(), "nothing is left undecoded of what a writer wrote");
    Ok(count)
}

#[derive(Debug, Clone)]
enum Step {
    Write { count: u64, text_length: usize },
    Read,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (1..4000u64, prop_oneof![0..40usize, Just(TEXT_MAX)]).prop_map(|(count, text_length)| {
        Step::Write { count: if text_length > 40 { count % 8 } else { count }, text_length }
    });
    prop::collection::vec(prop_oneof![3 => write, 2 => Just(Step::Read)], 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_interleaving_loses_and_duplicates_nothing(steps in steps(), stride in 1..RING_WORDS as u64) {
        let shared = shared();
        let (mut writer, mut reader) = shared.ends();
        let mut expected = std::collections::VecDeque::new();
        let mut written = 0;
        for step in steps {
            match step {
                Step::Write { count, text_length } => {
                    for _ in 0..count {
                        if write(&mut writer, written, text_length, stride).is_err() {
                            // Full: it must be true that the event does not fit.
                            prop_assert!(writer.backlog() + (4 + text_length.div_ceil(8)) as u64 > RING_WORDS as u64 - 4);
                            break;
                        }
                        expected.push_back(event(written, text_length));
                        written += 1;
                    }
                }
                Step::Read => {
                    let read = drain(&mut reader, |event, text| {
                        assert_eq!(expected.pop_front(), Some((event, text.to_vec())));
                    });
                    prop_assert!(read.is_ok());
                    prop_assert!(expected.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_reader_survives_any_words(words in prop::collection::vec(any::<u64>(), 1..200), head in any::<u64>()) {
        let shared = shared();
        for (to, from) in shared.words.iter().zip(&words) {
            to.store(*from, Ordering::Relaxed);
        }
        shared.slot.head.store(head, Ordering::Release);
        let (_, mut reader) = shared.ends();
        let _ = reader.read(|part| assert!(part.len() <= RING_WORDS));
        prop_assert_eq!(drain(&mut reader, |_, _| ()), Ok(0), "the rest was skipped");
    }
}

#[test]
fn two_threads_lose_and_duplicate_nothing() {
    const EVENTS: u64 = 2_000_000;
    let shared = shared();
    let (mut writer, mut reader) = shared.ends();
    struct Send<T>(T);
    // SAFETY: each end is used by one thread only.
    unsafe impl<T> std::marker::Send for Send<T> {}
    let mut writer = Send({
        writer.refill(4, 64).expect("an empty ring has room");
        writer
    });
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let Send(writer) = { &mut writer };
            for n in 0..EVENTS {
                while write(writer, n, n as usize % 50, RING_WORDS as u64 / 2).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < EVENTS {
            let read = drain(&mut reader, |got, text| {
                let (want, want_text) = event(next, next as usize % 50);
                assert_eq!((got, text), (want, want_text.as_slice()));
                next += 1;
            });
            if read == Ok(0) {
                std::thread::yield_now();
            }
        }
    });
    assert_eq!(shared.slot.open.load(Ordering::Acquire), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_short_ring_is_gone_around_often(
        bits in 2..7u32,
        steps in prop::collection::vec((1..12u64, 0..100usize, any::<bool>()), 1..80),
        stride in 0..80u64,
    ) {
        let length = 1usize << bits;
        let slot = shared().slot;
        // Rings of others on both sides: nothing may be written there.
        let words: Vec<AtomicU64> = (0..3 * length).map(|_| AtomicU64::new(7)).collect();
        let first = words[length..].as_ptr();
        // SAFETY: both outlive the ends, and each is made once.
        let (mut writer, mut reader) =
            unsafe { (Writer::new(&raw const *slot, first, length), Reader::new(&raw const *slot, first, length)) };
        let mut expected = std::collections::VecDeque::new();
        let (mut written, mut filled) = (0, 0);
        for (count, text_length, reads) in steps {
            for _ in 0..count {
                let (next, text) = event(written, text_length);
                let size = next.kind.size(text.len());
                let outcome = write(&mut writer, written, text_length, stride);
                prop_assert_eq!(outcome.is_ok(), filled + size <= length, "granted if and only if it fits");
                if outcome.is_err() {
                    break;
                }
                expected.push_back((next, text));
                written += 1;
                filled = writer.backlog() as usize;
                prop_assert!(filled <= length);
            }
            if reads {
                let outcome = drain(&mut reader, |event, text| {
                    assert_eq!(expected.pop_front(), Some((event, text.to_vec())));
                });
                prop_assert!(outcome.is_ok() && expected.is_empty());
                filled = 0;
            }
        }
        let beside = words[..length].iter().chain(&words[2 * length..]);
        prop_assert!(beside.into_iter().all(|word| word.load(Ordering::Relaxed) == 7));
    }
}
