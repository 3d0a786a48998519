//! The hot path: a heap event of two words, when nothing at all is out of the ordinary. What is not (no ring or no
//! room in it, a signal handler inside the probe, a fork not yet noticed, stamps that come from the kernel, a block
//! that gets a call stack) goes to [`record`](crate::record), out of line and with nothing to be kept across the
//! call, so that the path below needs few registers and no loop, lock or system call.

use core::arch::x86_64::_rdtsc;
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering, compiler_fence};

use memtrace_wire::event::{Kind, compact, compact_stamp, first_word};
use memtrace_wire::stack::STACK_THRESHOLD;

use crate::{aside, guard, next, record, stack, tls};

/// Points to a word that is 1 while this path may be taken in this process, and 0 in a forked child that has not
/// noticed yet ([`process::forked`](crate::process::forked)).
static USUAL: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER).cast_mut());
static NEVER: AtomicU32 = AtomicU32::new(0);

/// The process is recorded with stamps of the TSC; the word is 0 in a forked copy.
pub fn allow(alive: *mut AtomicU32) {
    USUAL.store(alive, Ordering::Relaxed);
}

/// Records that a block was acquired, if there is one; it is handed back.
#[inline(always)]
pub fn acquired(kind: Kind, block: *mut c_void, bytes: usize) -> *mut c_void {
    let address = block as usize;
    if address != 0
        && !next::is_of_pool(block)
        && bytes < STACK_THRESHOLD
        && let Some(first) = compact(kind, address, bytes)
        && pair(first, |stamp| compact_stamp(stamp, 0))
    {
        return block;
    }
    out_of_the_ordinary(kind, block, bytes)
}

/// Records that a block is about to be released.
#[inline(always)]
pub fn releases(address: usize) {
    if !pair(first_word(Kind::Free, address as u64), |stamp| stamp) {
        record::event(Kind::Free, address, 0, 0);
    }
}

#[cold]
#[inline(never)]
fn out_of_the_ordinary(kind: Kind, block: *mut c_void, bytes: usize) -> *mut c_void {
    if !block.is_null() && !next::is_of_pool(block) {
        stack::of(block as usize, bytes);
        record::event(kind, block as usize, bytes, 0);
    }
    block
}

/// Writes the event and says whether it did.
#[inline(always)]
fn pair(first: u64, second: impl FnOnce(u64) -> u64) -> bool {
    // SAFETY: the thread's own state; a signal handler that interrupts us sees the guard and puts its events
    // aside, which touches nothing that is in use here.
    let thread = unsafe { &mut *tls::thread() };
    // SAFETY: points to `NEVER` or to a page that stays mapped.
    let usual = unsafe { (*USUAL.load(Ordering::Relaxed)).load(Ordering::Relaxed) };
    if thread.guard != 0 || usual == 0 || !thread.writer.has_room(2) {
        return false;
    }
    let mut frame = guard::Frame::unmarked();
    thread.guard = frame.mark();
    // SAFETY: every x86-64 has rdtsc.
    let slot = thread.writer.push_pair(first, || second(unsafe { _rdtsc() }));
    thread.guard = 0;
    // From here on a handler writes for itself; what came before waits aside, and the slot is still open for it.
    compiler_fence(Ordering::SeqCst);
    if !aside::is_empty(thread) {
        aside::flush(thread);
    }
    slot.open.store(0, Ordering::Release);
    true
}
