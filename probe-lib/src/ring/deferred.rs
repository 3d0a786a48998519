//! Deferred events: those of signal handlers that interrupted the probe on the same
//! thread. They are stamped at once, stored in the thread's own memory and written as soon
//! as the interrupted event is; the ring's `open` flag stays set meanwhile, so that the
//! tracer does not read past them.
//!
//! That may take long: if a handler runs for as long as its timer, the next signal is there when it
//! returns, and the interrupted code does not advance by a single instruction.

use core::sync::atomic::{Ordering, compiler_fence};

use memtrace_wire::event::{Event, Kind};

use super::guard::Frame;
use super::room::{lose, make_room};
use super::thread_memory::{Content, Pool};
use crate::tls::Thread;

/// Most events of a thread; a handler that interrupts the probe and
/// allocates more loses them, counted.
const ROOM: usize = 4096;

/// The events of one thread.
type Events = [[u64; 4]; ROOM];

// SAFETY: words.
unsafe impl Content for Events {
    fn change_owner(&mut self) {}
}

static POOL: Pool<Events> = Pool::new();

/// Defers an event.
#[cold]
#[inline(never)]
pub fn defer(thread: &mut Thread, make: impl FnOnce() -> Event) {
    POOL.claim(&mut thread.deferred_events);
    let index = thread.deferred.fetch_add(1, Ordering::Relaxed);
    let Some(words) = place(thread, index) else {
        thread.deferred.fetch_sub(1, Ordering::Relaxed);
        return lose(thread);
    };
    thread.writer.open();
    // SAFETY: the thread's own memory; a handler that comes in between has the next place.
    unsafe { *words = make().encode() };
}

/// The place of an event; `None` if there is no such room, or no memory at all.
fn place(thread: &Thread, index: usize) -> Option<*mut [u64; 4]> {
    let events = thread.deferred_events;
    // SAFETY: the thread's own memory, which stays mapped.
    (!events.is_null() && index < ROOM).then(|| unsafe { events.cast::<[u64; 4]>().add(index) })
}

/// True if no event is deferred.
#[inline(always)]
pub fn is_empty(thread: &Thread) -> bool {
    thread.deferred.load(Ordering::Relaxed) == 0
}

/// Releases the guard. From here on a handler writes for itself; the slot stays open for what was
/// deferred before.
#[inline(always)]
pub fn release_guard(thread: &mut Thread) {
    compiler_fence(Ordering::SeqCst);
    thread.guard = 0;
    compiler_fence(Ordering::SeqCst);
    if !is_empty(thread) {
        flush(thread);
    }
}

/// Writes the deferred events, with the guard held; more may come meanwhile.
#[cold]
#[inline(never)]
pub fn write(thread: &mut Thread) {
    loop {
        let count = thread.deferred.load(Ordering::Relaxed);
        let index = thread.deferred_written;
        if index < count {
            // Before it is written: a handler that jumps out from in here must
            // not have it written twice.
            thread.deferred_written = index + 1;
            write_one(thread, index);
        } else if thread.deferred.compare_exchange(count, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            thread.deferred_written = 0;
            return;
        }
    }
}

fn write_one(thread: &mut Thread, index: usize) {
    // A handler that forked in here: the child has no such memory.
    let Some(place) = place(thread, index) else { return lose(thread) };
    // SAFETY: written before it was counted, and not since.
    let words = unsafe { *place };
    let Some((event, size)) = Event::decode(&words, 0) else { return };
    if make_room(thread, size) {
        thread.writer.open();
        thread.writer.push(event);
    }
}

/// The same for events that came too late for the one that was
/// interrupted: acquires the guard again.
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
