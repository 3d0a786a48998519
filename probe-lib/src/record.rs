//! Writing an event of any kind: with the guard held, into the thread's ring, which is got first if there is none
//! yet and waited for if it is full.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use memtrace_wire::event::{Event, Kind};
use memtrace_wire::layout::{CLOCK_MONOTONIC, Slot};
use memtrace_wire::stack::words;

use crate::entry::Entry;
use crate::process::{self, Attached};
use crate::tls::{self, Thread};
use crate::{aside, guard, python, stack, sys};

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
pub fn event(kind: Kind, address: usize, bytes: usize, extra: u64) {
    let make =
        || Event { kind, address: address as u64, stamp: stamp(), bytes: bytes as u64, extra, stack: 0 };
    write(kind.size(0), |thread| thread.writer.push(make()), |thread| aside::put(thread, make));
}

/// Records that something was acquired, with the call stack that led to `entry`. In a signal handler that interrupts
/// the probe it has none.
pub fn acquire(kind: Kind, address: usize, bytes: usize, extra: u64, entry: Option<Entry>) {
    let make =
        |stack| Event { kind, address: address as u64, stamp: stamp(), bytes: bytes as u64, extra, stack };
    let push = |thread: &mut Thread| {
        let stack = entry.map_or(0, |entry| keeping_errno(|| stack::number(thread, entry)));
        // What described the stack, or part of it, took the room that there was.
        if entry.is_none() || make_room(thread, kind.size(0)) {
            thread.writer.push(make(stack));
        } else {
            aside::lose(thread);
        }
    };
    write(kind.size(0), push, |thread| aside::put(thread, || make(0)));
}

/// Writes an event with its text where the guard is held already. False if there is no room.
pub fn push_inside(
    thread: &mut Thread,
    kind: Kind,
    address: u64,
    bytes: usize,
    text: impl Iterator<Item = u64>,
) -> bool {
    if !make_room(thread, kind.size(bytes)) {
        aside::lose(thread);
        return false;
    }
    let event = Event { kind, address, stamp: stamp(), bytes: bytes as u64, extra: 0, stack: 0 };
    thread.writer.push_text(event, text);
    true
}

/// Records an event with its text. In a signal handler that interrupts the probe it is lost and counted.
pub fn event_with_text(kind: Kind, address: u64, text: &[u8]) {
    acquire_with_words(kind, address, text.len(), words(text), None);
}

/// Records an event with a text of `bytes` bytes, and the call stack that led to `entry` if it is to have one.
pub fn acquire_with_words(
    kind: Kind,
    address: u64,
    bytes: usize,
    text: impl Iterator<Item = u64>,
    entry: Option<Entry>,
) {
    let push = |thread: &mut Thread| {
        let stack = entry.map_or(0, |entry| keeping_errno(|| stack::number(thread, entry)));
        // What described the stack, or part of it, took the room that there was.
        if entry.is_none() || make_room(thread, kind.size(bytes)) {
            let event = Event { kind, address, stamp: stamp(), bytes: bytes as u64, extra: 0, stack };
            thread.writer.push_text(event, text);
        } else {
            aside::lose(thread);
        }
    };
    write(kind.size(bytes), push, aside::lose);
}

/// Connects the calling thread and gives it a ring, if it has none, before anything has happened.
pub fn begin() {
    write(2, |_| (), |_| ());
}

/// The slot of the calling thread, if it has one.
pub fn slot() -> Option<&'static Slot> {
    // SAFETY: the thread's own state.
    unsafe { (*tls::thread()).writer.slot() }
}

/// Runs `push` with room for `words` in the thread's ring, or `nested` if the thread is in here already.
fn write(words: usize, push: impl FnOnce(&mut Thread), nested: impl FnOnce(&mut Thread)) {
    if process::is_off() {
        return;
    }
    // SAFETY: the thread's own state; a signal handler that interrupts us sees the guard and puts its events
    // aside, which touches nothing that is in use here.
    let thread = unsafe { &mut *tls::thread() };
    let mut frame = guard::Frame::unmarked();
    if thread.guard != 0 {
        if guard::is_held(thread.guard, &frame) {
            return nested(thread);
        }
        stack::forget(thread);
    }
    thread.guard = frame.mark();
    compiler_fence(Ordering::SeqCst);
    let ready = thread.writer.has_room(words) && !process::forked() && aside::is_empty(thread);
    if ready || slow(thread, words) {
        thread.writer.open();
        push(thread);
    }
    aside::hand_back(thread);
    thread.writer.close();
}

/// Gets the thread a ring with room for `words`, if it is at all possible. Preserves errno.
#[cold]
#[inline(never)]
fn slow(thread: &mut Thread, words: usize) -> bool {
    keeping_errno(|| {
        let ready = prepare(thread, words, Handlers::Run);
        if ready && !aside::is_empty(thread) {
            // What handlers put aside comes before the event that waited, or that found it here.
            aside::write(thread);
            return make_room(thread, words);
        }
        ready
    })
}

fn keeping_errno<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the calling thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let result = work();
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}

/// What becomes of signal handlers while the thread waits for room.
#[derive(Clone, Copy)]
enum Handlers {
    /// Nothing of the thread's state is in use: they run and write for themselves.
    Run,
    /// What they put aside is being written, and there is no room for more of it: they wait too.
    Wait,
}

/// True if there is room for `words`, or was made.
pub fn make_room(thread: &mut Thread, words: usize) -> bool {
    thread.writer.has_room(words) || prepare(thread, words, Handlers::Wait)
}

fn prepare(thread: &mut Thread, words: usize, handlers: Handlers) -> bool {
    let Some(attached) = ring(thread) else { return false };
    let stride = if python::is_near() { STRIDE_PYTHON } else { STRIDE };
    wake_tracer(thread, &attached);
    if thread.writer.refill(words, stride).is_ok() {
        thread.dropping = false;
        return true;
    }
    if thread.dropping {
        aside::lose(thread);
        return false;
    }
    match handlers {
        Handlers::Run => wait_for_room(thread, &attached, words, stride, handlers),
        Handlers::Wait => {
            let mask = sys::block_signals();
            let ready = wait_for_room(thread, &attached, words, stride, handlers);
            sys::set_signal_mask(mask);
            ready
        }
    }
}

/// Sees to it that the thread has a ring. Slots of threads that have ended come free when the tracer has read
/// what they wrote, so they are waited for as room in a ring is.
fn ring(thread: &mut Thread) -> Option<Attached> {
    if thread.writer.slot().is_some() && !process::forked() {
        return process::attached(thread);
    }
    let start = sys::monotonic_ns();
    let mut nap = 1_000_000;
    loop {
        let attached = connect(thread)?;
        if thread.writer.slot().is_some() {
            thread.slotless = false;
            return Some(attached);
        }
        if thread.slotless || sys::monotonic_ns() - start > WAIT_NS {
            thread.slotless = true;
            attached.header().lost_without_slot.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        process::wake_tracer();
        // A thousand threads that look every millisecond would leave the tracer no time.
        sys::nanosleep(nap);
        nap = (nap * 2).min(64_000_000);
    }
}

/// Connects and looks for a slot once. No signal may come in between: its handler could jump out of a handshake
/// that nobody would ever finish.
fn connect(thread: &mut Thread) -> Option<Attached> {
    let mask = sys::block_signals();
    let attached = process::attached(thread);
    if let Some(attached) = &attached
        && thread.writer.slot().is_none()
    {
        process::claim(thread, attached);
    }
    sys::set_signal_mask(mask);
    attached
}

/// Wakes the tracer if it sleeps while there is much to read.
fn wake_tracer(thread: &Thread, attached: &Attached) {
    if thread.writer.backlog() >= STRIDE / 2 && attached.header().sleeping.load(Ordering::Relaxed) == 1 {
        process::wake_tracer();
    }
}

fn wait_for_room(
    thread: &mut Thread,
    attached: &Attached,
    words: usize,
    stride: u64,
    handlers: Handlers,
) -> bool {
    let start = sys::monotonic_ns();
    let guard = thread.guard;
    loop {
        if matches!(handlers, Handlers::Run) {
            thread.guard = 0;
        }
        compiler_fence(Ordering::SeqCst);
        wake_tracer(thread, attached);
        sleep_until_read(thread, words, stride);
        let waited = sys::monotonic_ns() - start;
        let (gone, given_up) = (attached.tracer_gone(), waited > WAIT_NS);
        compiler_fence(Ordering::SeqCst);
        // No system call with the guard held: that is when signals come in.
        thread.guard = guard;
        let ready = !gone && thread.writer.refill(words, stride).is_ok();
        if ready || gone || given_up {
            note_wait(thread, waited, !ready && given_up);
            return ready;
        }
    }
}

/// Sleeps until the tracer has read the ring, or long enough to see whether it still lives.
fn sleep_until_read(thread: &mut Thread, words: usize, stride: u64) {
    const MOST_NS: u64 = 20_000_000;
    let Some(slot) = thread.writer.slot() else { return };
    slot.waiting.store(1, Ordering::SeqCst);
    // Either this sees what was read by now, or the tracer, which looks after it has read, sees the flag.
    if thread.writer.refill(words, stride).is_err() {
        sys::futex_wait(&slot.waiting, 1, MOST_NS);
    }
    slot.waiting.store(0, Ordering::Relaxed);
}

fn note_wait(thread: &mut Thread, waited: u64, given_up: bool) {
    thread.dropping = given_up;
    if let Some(slot) = thread.writer.slot() {
        slot.waited_ns.fetch_add(waited, Ordering::Relaxed);
        slot.lost.fetch_add(u64::from(given_up), Ordering::Relaxed);
    }
}
