//! The call stack of what was acquired: a number that the tracer knows it by, described to the tracer first if the
//! thread has not seen the stack before.

use memtrace_wire::event::Kind;
use memtrace_wire::stack::FramesHead;

use crate::entry::Entry;
use crate::record::push_inside;
use crate::tls::Thread;
use crate::unwind::{Missed, Stacks};
use crate::{python_frames, sys};

/// The number of the stack that leads to `entry`, if the thread has seen it before. Call it with the guard held.
#[inline(always)]
pub fn known(thread: &mut Thread, entry: Entry) -> Option<u16> {
    // SAFETY: null or the thread's own.
    let stacks = unsafe { thread.stacks.as_mut()? };
    find(stacks, entry).ok()
}

#[inline(always)]
fn find(stacks: &mut Stacks, entry: Entry) -> Result<u16, Missed> {
    // SAFETY: the program's call, which has not returned.
    unsafe { stacks.find(entry.caller(), entry.bp, python_frames::thread_state() as usize) }
}

/// The number of the stack that leads to `entry`, in any case; 0 if it could not be told. Call it with the guard held.
#[cold]
#[inline(never)]
pub fn number(thread: &mut Thread, entry: Entry) -> u16 {
    claim(thread);
    // SAFETY: null or the thread's own, and a handler that comes in between does not look at it.
    let Some(stacks) = (unsafe { thread.stacks.as_mut() }) else { return 0 };
    find(stacks, entry).unwrap_or_else(|missed| describe(thread, stacks, entry, &missed).unwrap_or(0))
}

/// Sees to it that the thread has where stacks are remembered, and events put aside. No signal may come in between: its
/// handler would claim another.
#[cold]
pub fn claim(thread: &mut Thread) {
    if thread.stacks.is_null() {
        let mask = sys::block_signals();
        if thread.stacks.is_null() {
            thread.stacks = Stacks::claim();
        }
        sys::set_signal_mask(mask);
    }
}

/// Forgets all stacks: a jump out of a signal handler may have left something half written.
#[cold]
#[inline(never)]
pub fn forget(thread: &mut Thread) {
    // SAFETY: null or the thread's own.
    if let Some(stacks) = unsafe { thread.stacks.as_mut() } {
        stacks.forget();
    }
}

/// Unwinds a stack and tells the tracer. Its number; `None` if there was no room to tell.
fn describe(thread: &mut Thread, stacks: &mut Stacks, entry: Entry, missed: &Missed) -> Option<u16> {
    let native_end = stacks.walk(entry.caller());
    stacks.announce_modules(thread);
    let python_end = stacks.python.walk(&raw const stacks.thread_state, &mut stacks.reads);
    stacks.python.describe(thread);
    let number = stacks.keep(missed);
    let (native, python) = (stacks.frames.list(), stacks.python.list());
    let complete = native_end && python_end;
    let head = FramesHead { native: native.len(), python: python.len(), complete }.word();
    let text = core::iter::once(head).chain(native.iter().copied()).chain(python.iter().flatten().copied());
    let bytes = (1 + native.len() + 2 * python.len()) * 8;
    if !push_inside(thread, Kind::Frames, u64::from(number), bytes, text) {
        stacks.forget();
        return None;
    }
    Some(number)
}
