//! Events from signal handlers that interrupted the probe on the same thread. They are stamped at once, kept
//! in the thread's own state and written as soon as the interrupted event is; the ring's `open` flag stays up
//! meanwhile, so that the tracer does not run past them.

use core::sync::atomic::Ordering;

use memtrace_wire::event::{Event, Kind};

use crate::guard::Frame;
use crate::record::slow;
use crate::tls::Thread;

/// Events kept at most; a handler that interrupts the probe and allocates more loses them, counted.
pub const ROOM: usize = 32;

/// The events kept.
#[repr(C)]
pub struct Aside {
    /// How many.
    pub count: usize,
    words: [[u64; 4]; ROOM],
}

/// Keeps an event for later.
#[cold]
#[inline(never)]
pub fn put(thread: &mut Thread, make: impl FnOnce() -> Event) {
    if thread.aside.count >= ROOM {
        return lose(thread);
    }
    thread.writer.open();
    let event = make();
    if let Some(words) = thread.aside.words.get_mut(thread.aside.count) {
        *words = event.encode();
        thread.aside.count += 1;
    }
}

/// Counts an event that could not be kept.
pub fn lose(thread: &mut Thread) {
    if let Some(slot) = thread.writer.slot() {
        slot.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes what was kept. More may come while it does.
#[cold]
#[inline(never)]
pub fn flush(thread: &mut Thread, frame: &mut Frame) {
    while thread.aside.count != 0 {
        thread.guard = frame.mark();
        for index in 0..ROOM {
            if index >= thread.aside.count {
                break;
            }
            let Some(words) = thread.aside.words.get(index).copied() else { break };
            let Some((event, size)) = Event::decode(|at| word(&words, at), 0, 4) else { continue };
            let size = size as usize;
            if thread.writer.has_room(size) || slow(thread, size) {
                thread.writer.open();
                thread.writer.push(event);
            }
        }
        thread.aside.count = 0;
        thread.guard = 0;
    }
}

fn word(words: &[u64; 4], at: u64) -> u64 {
    words.get(at as usize).copied().unwrap_or(0)
}

const _: () = assert!(Kind::Touched.words() <= 4);
