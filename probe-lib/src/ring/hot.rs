//! The hot path: a heap event of two words, when nothing at all is out of the ordinary. What is not
//! (no ring or no room in it, a signal handler inside the probe, a fork not yet noticed, stamps
//! that come from the kernel, a call stack that was not seen before) goes to
//! [`record`](crate::ring::record), out of line and with nothing to be kept across the call. So the
//! path below needs few registers and no loop, lock or system call.

use core::ffi::c_void;
use core::sync::atomic::{Ordering, compiler_fence};

use memtrace_wire::arch::counter;
use memtrace_wire::event::{Kind, compact, compact_stamp, first_word};

use super::stack::CallStack;
use super::{deferred, guard, record, refused, room, sampling};
use crate::next;
use crate::tls::{self, Thread};

/// Records that a block was acquired, or that there was no memory for it; returns the block.
#[inline(always)]
pub fn acquired(kind: Kind, block: *mut c_void, bytes: usize, stack: impl CallStack) -> *mut c_void {
    let address = block as usize;
    if address != 0
        && !next::is_of_pool(block)
        && let Some(first) = compact(kind, address, bytes)
    {
        let thread = thread();
        if sampling::may_want(thread, bytes) {
            return maybe_with_stack(kind, block, bytes, stack);
        }
        if pair(thread, first, |_| Some(0), compact_stamp) {
            return block;
        }
        return without_stack(kind, block, bytes);
    }
    rare(kind, block, bytes, stack)
}

/// Records that a block is about to be released.
#[inline(always)]
pub fn releases(address: usize) {
    if !pair(thread(), first_word(Kind::Free, address as u64), |_| Some(0), |stamp, _| stamp) {
        record::event(Kind::Free, address, 0, 0);
    }
}

/// Usually a stack that the thread has seen before.
#[inline(never)]
fn maybe_with_stack(kind: Kind, block: *mut c_void, bytes: usize, stack: impl CallStack) -> *mut c_void {
    let thread = thread();
    if !sampling::wants(thread, bytes) {
        return without_stack(kind, block, bytes);
    }
    let known = |thread: &mut Thread| stack.known(thread);
    let first = compact(kind, block as usize, bytes);
    if !first.is_some_and(|first| pair(thread, first, known, compact_stamp)) {
        record::acquire(kind, block as usize, bytes, 0, Some(stack));
    }
    block
}

#[cold]
#[inline(never)]
fn without_stack(kind: Kind, block: *mut c_void, bytes: usize) -> *mut c_void {
    record::event(kind, block as usize, bytes, 0);
    block
}

#[cold]
#[inline(never)]
fn rare(kind: Kind, block: *mut c_void, bytes: usize, stack: impl CallStack) -> *mut c_void {
    if block.is_null() {
        refused::report(bytes, stack);
    } else if !next::is_of_pool(block) {
        let wants = sampling::wants(thread(), bytes);
        record::acquire(kind, block as usize, bytes, 0, wants.then_some(stack));
    }
    block
}

/// The thread's own state; a signal handler that interrupts us sees the guard and defers its
/// events, which touches nothing that is in use here.
#[inline(always)]
fn thread() -> &'static mut Thread {
    // SAFETY: as said above; no borrow outlives a call from the program.
    unsafe { &mut *tls::thread() }
}

/// Writes an event of two words and says whether it did: a number, if there is one, and then a
/// stamp make the second.
#[inline(always)]
fn pair(
    thread: &mut Thread,
    first: u64,
    number: impl FnOnce(&mut Thread) -> Option<u16>,
    second: impl FnOnce(u64, u16) -> u64,
) -> bool {
    let usual = room::may_be_usual();
    if thread.guard != 0 || !usual {
        return false;
    }
    let mut frame = guard::Frame::unmarked();
    thread.guard = frame.mark();
    // Checked with the guard held: a handler could use the room up in between.
    compiler_fence(Ordering::SeqCst);
    let room = thread.writer.has_room(2);
    let Some(number) = room.then(|| number(thread)).flatten() else {
        thread.guard = 0;
        return false;
    };
    let slot = thread.writer.push_pair(first, || second(counter::stamp(), number));
    deferred::release_guard(thread);
    slot.open.store(0, Ordering::Release);
    true
}
