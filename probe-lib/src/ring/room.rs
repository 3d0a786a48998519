//! Room in the thread's ring: a thread without a ring claims one; a full ring is waited for.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

use memtrace_wire::layout::{CLOCK_COUNTER, Settings};

use super::sampling;
use crate::connection::hooks;
use crate::connection::process;
use crate::sys;
use crate::tls::Thread;

/// How long a full ring is waited for before events are dropped and counted.
const WAIT_NS: u64 = 30_000_000_000;
/// The same for a slot where no further segment can be mapped: the threads that have those there are
/// may wait for this one.
const WAIT_IN_NARROW_SPACE_NS: u64 = 3_000_000_000;
/// Words granted before the slow path runs again, if half a ring is not less.
static STRIDE: AtomicU64 = AtomicU64::new(u64::MAX);
/// While the slow path is to run often.
const SHORTEST_STRIDE: u64 = 4;

/// Runs the slow path after every few words, or no more.
pub fn run_often(often: bool) {
    STRIDE.store(if often { SHORTEST_STRIDE } else { u64::MAX }, Ordering::Relaxed);
}

/// Points to a word that is 1 while the hot path may be taken in this process: recorded with stamps
/// of the TSC, and no forked child that has not noticed yet ([`process::forked`]).
static USUAL: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER).cast_mut());
static NEVER: AtomicU32 = AtomicU32::new(0);

/// True if the hot path may be taken.
#[inline(always)]
pub fn may_be_usual() -> bool {
    // SAFETY: points to `NEVER` or to a page that stays mapped.
    unsafe { (*USUAL.load(Ordering::Relaxed)).load(Ordering::Relaxed) != 0 }
}

/// Counts an event that is lost.
pub fn lose(thread: &mut Thread) {
    if let Some(slot) = thread.writer.slot() {
        slot.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// What becomes of signal handlers while the thread waits for room.
#[derive(Clone, Copy)]
pub enum Handlers {
    /// Nothing of the thread's state is in use: they run and write for themselves.
    Run,
    /// Deferred events are being written, and there is no room for more of them: handlers wait too.
    Wait,
}

/// True if there is room for `words`, or was made.
pub fn make_room(thread: &mut Thread, words: usize) -> bool {
    thread.writer.has_room(words) || prepare(thread, words, Handlers::Wait)
}

/// Gets the thread a ring with room for `words`, if it is at all possible.
pub fn prepare(thread: &mut Thread, words: usize, handlers: Handlers) -> bool {
    if !ring(thread) {
        return false;
    }
    let stride = STRIDE.load(Ordering::Relaxed).min(thread.writer.ring_words() / 2);
    wake_tracer(thread);
    if thread.writer.refill(words, stride).is_ok() {
        thread.dropping = false;
        return true;
    }
    if thread.dropping {
        lose(thread);
        return false;
    }
    match handlers {
        Handlers::Run => wait_for_room(thread, words, stride, handlers),
        Handlers::Wait => {
            let mask = sys::block_signals();
            let ready = wait_for_room(thread, words, stride, handlers);
            sys::set_signal_mask(mask);
            ready
        }
    }
}

/// Sees to it that the thread has a ring, of a further segment if need be. Where there is none,
/// slots of threads that have ended come free when the tracer has read what they wrote, so they are
/// waited for as room in a ring is.
fn ring(thread: &mut Thread) -> bool {
    if thread.writer.slot().is_some() && !process::forked() {
        return process::attached(thread, use_settings);
    }
    let start = sys::monotonic_ns();
    let mut nap = 1_000_000;
    loop {
        if !connect(thread) {
            return false;
        }
        if thread.writer.slot().is_some() {
            thread.slotless = false;
            return true;
        }
        let most = || if process::lacks_address_space() { WAIT_IN_NARROW_SPACE_NS } else { WAIT_NS };
        if thread.slotless || sys::monotonic_ns() - start > most() {
            thread.slotless = true;
            process::lose_without_slot();
            return false;
        }
        process::wake_tracer();
        // A thousand threads that try every millisecond would leave the tracer no time.
        sys::nanosleep(nap);
        nap = (nap * 2).min(64_000_000);
    }
}

/// Connects and tries to claim a slot; false if the process is not recorded. No signal may come in
/// between: its handler could jump out of the handshake and leave it unfinished.
fn connect(thread: &mut Thread) -> bool {
    let mask = sys::block_signals();
    let attached = process::attached(thread, use_settings);
    if attached && thread.writer.slot().is_none() && process::claim(thread) {
        sampling::begin(thread);
        // They were described in another ring.
        hooks::forget_stacks(thread);
    }
    sys::set_signal_mask(mask);
    attached
}

/// Wakes the tracer if it sleeps while there is much to read.
fn wake_tracer(thread: &Thread) {
    if thread.writer.backlog() >= thread.writer.ring_words() / 4 {
        process::wake_tracer();
    }
}

fn wait_for_room(thread: &mut Thread, words: usize, stride: u64, handlers: Handlers) -> bool {
    let start = sys::monotonic_ns();
    let guard = thread.guard;
    loop {
        if matches!(handlers, Handlers::Run) {
            thread.guard = 0;
        }
        compiler_fence(Ordering::SeqCst);
        wake_tracer(thread);
        sleep_until_read(thread, words, stride);
        let waited = sys::monotonic_ns() - start;
        let (gone, timed_out) = (process::tracer_gone(), waited > WAIT_NS);
        compiler_fence(Ordering::SeqCst);
        // No system call with the guard held: signals are delivered then.
        thread.guard = guard;
        let ready = !gone && thread.writer.refill(words, stride).is_ok();
        if ready || gone || timed_out {
            note_wait(thread, waited, !ready && timed_out);
            return ready;
        }
    }
}

/// Sleeps until the tracer has read the ring, or until it is time to check
/// that the tracer still runs.
fn sleep_until_read(thread: &mut Thread, words: usize, stride: u64) {
    const MOST_NS: u64 = 20_000_000;
    let Some(slot) = thread.writer.slot() else { return };
    slot.waiting.store(1, Ordering::Relaxed);
    // Either this sees what was read by now, or the tracer, which checks the
    // flag after reading, sees it.
    fence(Ordering::SeqCst);
    if thread.writer.refill(words, stride).is_err() {
        sys::futex_wait(&slot.waiting, 1, MOST_NS);
    }
    slot.waiting.store(0, Ordering::Relaxed);
}

fn note_wait(thread: &mut Thread, waited: u64, timed_out: bool) {
    thread.dropping = timed_out;
    if let Some(slot) = thread.writer.slot() {
        slot.waited_ns.fetch_add(waited, Ordering::Relaxed);
        slot.lost.fetch_add(u64::from(timed_out), Ordering::Relaxed);
    }
}

/// What the tracer has chosen for this recording.
fn use_settings(settings: &Settings) {
    if settings.clock == CLOCK_COUNTER {
        USUAL.store(process::alive(), Ordering::Relaxed);
    }
    sampling::choose(settings.stacks_from, settings.stacks_mean);
}
