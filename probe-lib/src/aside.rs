//! Events from signal handlers that interrupted the probe on the same thread. They are stamped at once, kept
//! in the thread's own memory and written as soon as the interrupted event is; the ring's `open` flag stays up
//! meanwhile, so that the tracer does not run past them.
//!
//! That may be long: while a handler takes as long as its timer, the next signal is there when it returns, and what
//! was interrupted does not get on by a single instruction.

use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

use memtrace_wire::event::{Event, Kind};

use crate::guard::Frame;
use crate::record::make_room;
use crate::stack::claim;
use crate::tls::Thread;

/// Events kept at most; a handler that interrupts the probe and allocates more loses them, counted.
pub const ROOM: usize = 4096;

/// Where they are kept: with what the thread remembers of stacks, not among its thread-locals, which would take
/// that much of every thread's stack.
pub type Kept = [[u64; 4]; ROOM];

/// The events kept. Handlers may interrupt each other, but each returns before what it interrupted goes on.
#[repr(C)]
pub struct Aside {
    /// How many.
    pub count: AtomicUsize,
    /// How many of them have been written.
    written: usize,
}

/// Keeps an event for later.
#[cold]
#[inline(never)]
pub fn put(thread: &mut Thread, make: impl FnOnce() -> Event) {
    claim(thread);
    let index = thread.aside.count.fetch_add(1, Ordering::Relaxed);
    let Some(words) = place(thread, index) else {
        thread.aside.count.fetch_sub(1, Ordering::Relaxed);
        return lose(thread);
    };
    thread.writer.open();
    // SAFETY: the thread's own memory; a handler that comes in between has the next place.
    unsafe { *words = make().encode() };
}

/// The place of an event; `None` if there is no such room, or no memory at all.
fn place(thread: &Thread, index: usize) -> Option<*mut [u64; 4]> {
    let there = !thread.stacks.is_null() && index < ROOM;
    // SAFETY: the thread's own memory, which stays mapped; no borrow of what else lies in it is made here, as the
    // code that was interrupted may have one.
    there.then(|| unsafe { (&raw mut (*thread.stacks).aside).cast::<[u64; 4]>().add(index) })
}

/// True if nothing was kept.
#[inline(always)]
pub fn is_empty(thread: &Thread) -> bool {
    thread.aside.count.load(Ordering::Relaxed) == 0
}

/// Gives the guard back. From here on a handler writes for itself; what came before waits aside, and the slot is
/// still open for it.
#[inline(always)]
pub fn hand_back(thread: &mut Thread) {
    compiler_fence(Ordering::SeqCst);
    thread.guard = 0;
    compiler_fence(Ordering::SeqCst);
    if !is_empty(thread) {
        flush(thread);
    }
}

/// Counts an event that could not be kept.
pub fn lose(thread: &mut Thread) {
    if let Some(slot) = thread.writer.slot() {
        slot.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes what was kept, with the guard held; more may come while it does.
#[cold]
#[inline(never)]
pub fn write(thread: &mut Thread) {
    loop {
        let count = thread.aside.count.load(Ordering::Relaxed);
        let index = thread.aside.written;
        if index < count {
            // Before it is written: a handler that jumps out from in here must not have it written twice.
            thread.aside.written = index + 1;
            write_one(thread, index);
        } else if thread.aside.count.compare_exchange(count, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            thread.aside.written = 0;
            return;
        }
    }
}

fn write_one(thread: &mut Thread, index: usize) {
    // What a handler kept that forked in here was its parent's memory.
    let Some(place) = place(thread, index) else { return lose(thread) };
    // SAFETY: written before it was counted, and by nobody since.
    let words = unsafe { *place };
    let Some((event, size)) = Event::decode(&words, 0) else { return };
    if make_room(thread, size) {
        thread.writer.open();
        thread.writer.push(event);
    }
}

/// The same for what came in too late for the event that was interrupted: takes the guard again.
#[cold]
#[inline(never)]
pub fn flush(thread: &mut Thread) {
    let mut frame = Frame::unmarked();
    while !is_empty(thread) {
        thread.guard = frame.mark();
        write(thread);
        thread.guard = 0;
    }
}

const _: () = assert!(Kind::Touched.words() <= 4);
