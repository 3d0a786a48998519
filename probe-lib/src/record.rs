//! Writing an event: the hot path, and the slow path it falls into when there is no ring yet, the ring is
//! full, or something has to be looked at now and then.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU32, Ordering};

use memtrace_wire::event::{Event, Kind};
use memtrace_wire::layout::CLOCK_MONOTONIC;
use memtrace_wire::stack::words;

use crate::process::{self, Attached};
use crate::tls::{self, Thread};
use crate::{python, sys};

/// How long a full ring is waited for before events are dropped and counted.
const WAIT_NS: u64 = 30_000_000_000;
/// Words granted before the slow path looks around again: half a ring.
const STRIDE: u64 = memtrace_wire::layout::RING_WORDS as u64 / 2;
/// The same while Python's start is being waited for.
const STRIDE_PYTHON: u64 = 4;

static CLOCK: AtomicU32 = AtomicU32::new(0);

/// Which clock stamps come from ([`memtrace_wire::layout::CLOCK_TSC`] or monotonic).
pub fn set_clock(clock: u32) {
    CLOCK.store(clock, Ordering::Relaxed);
}

/// A stamp. Plain `rdtsc`, unfenced: a late stamp is repaired by the tracer's pairing, a fence on every
/// event would cost more than the rest of it.
#[inline(always)]
pub fn stamp() -> u64 {
    if CLOCK.load(Ordering::Relaxed) == CLOCK_MONOTONIC {
        return sys::monotonic_ns();
    }
    // SAFETY: every x86-64 has rdtsc.
    unsafe { _rdtsc() }
}

/// Records an event without text.
#[inline(always)]
pub fn event(kind: Kind, address: usize, bytes: usize, extra: u64) {
    write(kind.words(), |thread| {
        let event = Event { kind, address: address as u64, stamp: stamp(), bytes: bytes as u64, extra };
        thread.writer.push(event);
    });
}

/// Records an event with its text.
pub fn event_with_text(kind: Kind, id: u64, text: &[u8]) {
    event_with_words(kind, id, text.len(), words(text));
}

/// Records an event with a text of `bytes` bytes.
pub fn event_with_words(kind: Kind, id: u64, bytes: usize, text: impl Iterator<Item = u64>) {
    write(3 + bytes.div_ceil(8), |thread| {
        let event = Event { kind, address: id, stamp: stamp(), bytes: bytes as u64, extra: 0 };
        thread.writer.push_text(event, text);
    });
}

/// Records an event whose text is `first_words` words and then up to `room` bytes that `fill` copies.
pub fn event_filled(
    kind: Kind,
    id: u64,
    first_words: usize,
    first: impl Iterator<Item = u64>,
    room: usize,
    fill: impl FnOnce([(*mut u8, usize); 2]) -> usize,
) {
    write(3 + first_words + room.div_ceil(8), |thread| {
        let event = Event { kind, address: id, stamp: stamp(), bytes: 0, extra: 0 };
        thread.writer.push_filled(event, first, room, fill);
    });
}

#[inline(always)]
fn write(words: usize, push: impl FnOnce(&mut Thread)) {
    // SAFETY: the thread's own state; a signal handler that interrupts us sees the guard and stays out.
    let thread = unsafe { &mut *tls::thread() };
    if !enter(thread) {
        return;
    }
    if (thread.writer.has_room(words) && !process::forked()) || slow(thread, words) {
        thread.writer.open();
        push(thread);
    }
    thread.guard = 0;
}

/// Takes the guard: a stack address, not a flag. An entry from a shallower frame of the same stack proves
/// that a `longjmp` out of a signal handler skipped the exit, and takes it over.
#[inline(always)]
fn enter(thread: &mut Thread) -> bool {
    let here = tls::stack_address();
    if thread.guard != 0 && nested(thread, here) {
        return false;
    }
    thread.guard = here;
    true
}

#[cold]
fn nested(thread: &mut Thread, here: usize) -> bool {
    /// Farther apart than this, two frames are on different stacks (sigaltstack).
    const SAME_STACK: usize = 1 << 20;
    // A handler's frames lie below the guard; at or above it, the guarded frame is gone.
    if here >= thread.guard && here - thread.guard < SAME_STACK {
        thread.connecting = false;
        return false;
    }
    if !thread.connecting
        && let Some(slot) = thread.writer.slot()
    {
        slot.lost.fetch_add(1, Ordering::Relaxed);
    }
    true
}

/// Gets the thread a ring with room for `words`, if it is at all possible. Preserves errno.
#[cold]
#[inline(never)]
fn slow(thread: &mut Thread, words: usize) -> bool {
    // SAFETY: the calling thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    thread.connecting = true;
    let ready = prepare(thread, words);
    thread.connecting = false;
    // SAFETY: as above.
    unsafe { *errno = before };
    ready
}

fn prepare(thread: &mut Thread, words: usize) -> bool {
    let Some(attached) = process::attached(thread) else { return false };
    if thread.writer.slot().is_none() && !process::claim(thread, &attached) {
        return false;
    }
    let stride = if python::is_near() { STRIDE_PYTHON } else { STRIDE };
    wake_tracer(thread, &attached);
    if thread.writer.refill(words, stride).is_ok() {
        thread.dropping = false;
        return true;
    }
    if thread.dropping {
        if let Some(slot) = thread.writer.slot() {
            slot.lost.fetch_add(1, Ordering::Relaxed);
        }
        return false;
    }
    wait_for_room(thread, &attached, words, stride)
}

/// Wakes the tracer if it sleeps while there is much to read.
fn wake_tracer(thread: &Thread, attached: &Attached) {
    let header = attached.header();
    if thread.writer.backlog() >= STRIDE / 2
        && header.sleeping.load(Ordering::Relaxed) == 1
        && header.sleeping.swap(0, Ordering::Relaxed) == 1
    {
        sys::futex_wake(&header.sleeping);
    }
}

fn wait_for_room(thread: &mut Thread, attached: &Attached, words: usize, stride: u64) -> bool {
    let start = sys::monotonic_ns();
    let mut rounds = 0u32;
    loop {
        if attached.tracer_gone() {
            return false;
        }
        wake_tracer(thread, attached);
        // Give the core to the tracer first; it needs far less time than the ring took to fill.
        if rounds < 64 {
            sys::sched_yield()
        } else {
            sys::nanosleep(100_000)
        }
        rounds = rounds.saturating_add(1);
        let ready = thread.writer.refill(words, stride).is_ok();
        let waited = sys::monotonic_ns() - start;
        let given_up = waited > WAIT_NS;
        if let Some(slot) = thread.writer.slot()
            && (ready || given_up)
        {
            slot.waited_ns.fetch_add(waited, Ordering::Relaxed);
            slot.lost.fetch_add(u64::from(given_up), Ordering::Relaxed);
        }
        if ready || given_up {
            thread.dropping = given_up;
            return ready;
        }
    }
}
