//! Writing an event of any kind: with the guard held, into the thread's ring. A thread without a
//! ring gets one first; a full ring is waited for.

use core::sync::atomic::{Ordering, compiler_fence};

use memtrace_wire::event::{Event, Kind};
use memtrace_wire::layout::Slot;
use memtrace_wire::stack::words;

use super::room::{Handlers, lose, make_room, prepare};
use super::stack::{CallStack, NoStack};
use super::{deferred, guard};
use crate::clock::stamp;
use crate::connection::{hooks, process};
use crate::tls::{self, Thread};

/// Records an event without text.
pub fn event(kind: Kind, address: usize, bytes: usize, extra: u64) {
    let make =
        || Event { kind, address: address as u64, stamp: stamp(), bytes: bytes as u64, extra, stack: 0 };
    write(kind.size(0), |thread| thread.writer.push(make()), |thread| deferred::defer(thread, make));
}

/// Records that something was acquired, with the call stack that led to it. In a signal handler
/// that interrupts the probe it has none.
pub fn acquire(kind: Kind, address: usize, bytes: usize, extra: u64, stack: Option<impl CallStack>) {
    let make =
        |stack| Event { kind, address: address as u64, stamp: stamp(), bytes: bytes as u64, extra, stack };
    let push = |thread: &mut Thread| {
        let number = stack.map_or(0, |stack| keeping_errno(|| stack.number(thread)));
        // What described the stack, or part of it, took the room that there was.
        if stack.is_none() || make_room(thread, kind.size(0)) {
            thread.writer.push(make(number));
        } else {
            lose(thread);
        }
    };
    write(kind.size(0), push, |thread| deferred::defer(thread, || make(0)));
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
        lose(thread);
        return false;
    }
    let event = Event { kind, address, stamp: stamp(), bytes: bytes as u64, extra: 0, stack: 0 };
    thread.writer.push_text(event, text);
    true
}

/// Records an event with its text. In a signal handler that interrupts the
/// probe it is lost and counted.
pub fn event_with_text(kind: Kind, address: u64, text: &[u8]) {
    acquire_with_words(kind, address, text.len(), words(text), None::<NoStack>);
}

/// Records an event with a text of `bytes` bytes, and its call stack if it is to have one.
pub fn acquire_with_words(
    kind: Kind,
    address: u64,
    bytes: usize,
    text: impl Iterator<Item = u64>,
    stack: Option<impl CallStack>,
) {
    let push = |thread: &mut Thread| {
        let number = stack.map_or(0, |stack| keeping_errno(|| stack.number(thread)));
        // What described the stack, or part of it, took the room that there was.
        if stack.is_none() || make_room(thread, kind.size(bytes)) {
            let event = Event { kind, address, stamp: stamp(), bytes: bytes as u64, extra: 0, stack: number };
            thread.writer.push_text(event, text);
        } else {
            lose(thread);
        }
    };
    write(kind.size(bytes), push, lose);
}

/// Connects the calling thread, so that it has a ring before its first event.
pub fn begin() {
    write(2, |_| (), |_| ());
}

/// The slot of the calling thread, if it has one.
pub fn slot() -> Option<&'static Slot> {
    // SAFETY: the thread's own state.
    unsafe { (*tls::thread()).writer.slot() }
}

/// Runs `push` with room for `words` in the thread's ring, or `nested` if the
/// thread is in here already.
fn write(words: usize, push: impl FnOnce(&mut Thread), nested: impl FnOnce(&mut Thread)) {
    if process::is_off() {
        return;
    }
    // SAFETY: the thread's own state; a signal handler that interrupts us sees the guard and defers
    // its events, which touches nothing that is in use here.
    let thread = unsafe { &mut *tls::thread() };
    let mut frame = guard::Frame::unmarked();
    if thread.guard != 0 {
        if guard::is_held(thread.guard, &frame) {
            return nested(thread);
        }
        hooks::forget_stacks(thread);
    }
    thread.guard = frame.mark();
    compiler_fence(Ordering::SeqCst);
    let ready = thread.writer.has_room(words) && !process::forked() && deferred::is_empty(thread);
    if ready || slow(thread, words) {
        thread.writer.open();
        push(thread);
    }
    deferred::release_guard(thread);
    thread.writer.close();
}

/// Gets the thread a ring with room for `words`, if it is at all possible. Preserves errno.
#[cold]
#[inline(never)]
fn slow(thread: &mut Thread, words: usize) -> bool {
    keeping_errno(|| {
        let ready = prepare(thread, words, Handlers::Run);
        if ready && !deferred::is_empty(thread) {
            // What handlers have deferred comes before the event that is to be written.
            deferred::write(thread);
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
