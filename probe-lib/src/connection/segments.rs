//! The segments that this process maps, and the slots in them that its threads claim.
//!
//! The first comes with the hello; a forked child has those of its parent. When all slots are taken,
//! one thread at a time fetches a further segment.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use memtrace_wire::handshake::Wants;
use memtrace_wire::layout::{Geometry, SLOTS_OFFSET, SegmentHeader, Slot};
use memtrace_wire::ring::Writer;

use super::connect;
use crate::{sandbox, sys};

/// Segments of a process: room for 32,000 threads.
const MOST: usize = 256;
/// How long after a failure to fetch one no other is fetched; twice as long after each further one,
/// to about a minute.
const PAUSE_NS: u64 = 1_000_000_000;
const PAUSE_DOUBLINGS: u64 = 6;

/// A segment's place. Written before it is counted, and not changed after that.
struct Place {
    base: AtomicPtr<u8>,
    /// How many of its slots are mapped.
    slots: AtomicUsize,
}

static PLACES: [Place; MOST] =
    [const { Place { base: AtomicPtr::new(null_mut()), slots: AtomicUsize::new(0) } }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static FETCHING: AtomicBool = AtomicBool::new(false);
/// Failures since the last success.
static FAILURES: AtomicU64 = AtomicU64::new(0);
/// No further one is fetched before this time.
static NOT_BEFORE: AtomicU64 = AtomicU64::new(0);

/// A segment in this process.
#[derive(Clone, Copy)]
struct Segment {
    base: *mut u8,
    slots: usize,
    geometry: Geometry,
}

impl Segment {
    /// One of those that are counted.
    fn at(index: usize) -> Option<Segment> {
        let place = PLACES.get(index)?;
        let geometry = if index == 0 { Wants::First } else { Wants::Further }.geometry();
        let base = place.base.load(Ordering::Relaxed);
        (!base.is_null()).then(|| Segment { base, slots: place.slots.load(Ordering::Relaxed), geometry })
    }

    fn header(self) -> &'static SegmentHeader {
        // SAFETY: mapped for the life of the process; all fields are atomics.
        unsafe { &*self.base.cast() }
    }

    fn slot(self, index: usize) -> &'static Slot {
        // SAFETY: `index` < `slots`, which are mapped for the life of the process; all fields are
        // atomics.
        unsafe { &*self.base.add(SLOTS_OFFSET).cast::<Slot>().add(index) }
    }

    fn writer(self, index: usize) -> Writer {
        let geometry = self.geometry;
        // SAFETY: as for `slot`; the thread that has claimed the slot is the only writer.
        unsafe {
            Writer::new(self.slot(index), self.base.add(geometry.ring(index)).cast(), geometry.ring_words)
        }
    }
}

/// Adds a segment; false if there is no room for it.
pub fn add(mapped: connect::Segment) -> bool {
    let count = COUNT.load(Ordering::Relaxed);
    let Some(place) = PLACES.get(count) else { return false };
    place.slots.store(mapped.slots, Ordering::Relaxed);
    place.base.store(mapped.base, Ordering::Relaxed);
    COUNT.store(count + 1, Ordering::Release);
    true
}

/// Head of the first segment (call it only while recorded).
pub fn header() -> &'static SegmentHeader {
    // SAFETY: mapped for the life of the process; all fields are atomics.
    unsafe { &*PLACES[0].base.load(Ordering::Relaxed).cast() }
}

/// Claims a slot that `take` can have: in the first segment, whose rings are the largest, or in the
/// latest.
pub fn claim(mut take: impl FnMut(&'static Slot) -> bool) -> Option<Writer> {
    let count = COUNT.load(Ordering::Acquire);
    let segments = (0..count.min(1)).chain((1..count).rev()).filter_map(Segment::at);
    for segment in segments {
        if let Some(index) = (0..segment.slots).find(|index| take(segment.slot(*index))) {
            segment.header().slots_used.fetch_max(index as u32 + 1, Ordering::AcqRel);
            return Some(segment.writer(index));
        }
    }
    None
}

/// Fetches a further segment, unless another thread does meanwhile: true if there is one. No signal
/// may come in between.
pub fn fetch(pid: u32, image: u64) -> bool {
    let count = COUNT.load(Ordering::Acquire);
    // An unusual filter might end the process for a socket.
    if count == MOST || !sandbox::lets_connect() || sys::monotonic_ns() < NOT_BEFORE.load(Ordering::Relaxed) {
        return false;
    }
    if FETCHING.swap(true, Ordering::Acquire) {
        return wait(count);
    }
    // Another thread may have been faster.
    let added = COUNT.load(Ordering::Acquire) > count
        || connect::further(pid, image, mapped_bytes()).is_some_and(add);
    if added {
        FAILURES.store(0, Ordering::Relaxed);
    } else {
        let failures = FAILURES.fetch_add(1, Ordering::Relaxed).min(PAUSE_DOUBLINGS);
        NOT_BEFORE.store(sys::monotonic_ns() + (PAUSE_NS << failures), Ordering::Relaxed);
    }
    FETCHING.store(false, Ordering::Release);
    added
}

/// True if there is no room for a further one in what the process may map.
pub fn lacks_address_space() -> bool {
    // An unusual filter might end the process for the question.
    !sandbox::is_filtered() && connect::further_slots(mapped_bytes()).is_none()
}

/// What all of them take of the address space.
fn mapped_bytes() -> usize {
    let segments = (0..COUNT.load(Ordering::Acquire)).filter_map(Segment::at);
    segments.map(|segment| segment.geometry.ring(segment.slots)).sum()
}

/// True if no further one was fetched yet.
pub fn only_first() -> bool {
    COUNT.load(Ordering::Acquire) == 1
}

/// Waits for the thread that fetches one.
fn wait(count: usize) -> bool {
    const NAP_NS: u64 = 100_000;
    let mut naps = 0;
    while FETCHING.load(Ordering::Acquire) && naps < PAUSE_NS / NAP_NS {
        sys::nanosleep(NAP_NS);
        naps += 1;
    }
    COUNT.load(Ordering::Acquire) > count
}

/// In a forked child: the thread that fetched one is not in it.
pub fn forked() {
    FETCHING.store(false, Ordering::Relaxed);
}
