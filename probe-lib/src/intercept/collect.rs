//! The functions that a language's recorder calls about its garbage collector: marks
//! around collections, and the wait of the thread that collects when the tracer
//! requests it (`--gc eager`).

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use memtrace_wire::event::Kind;
use memtrace_wire::layout::{COLLECT_NO_MORE, COLLECT_NOT, COLLECT_REQUESTED, COLLECT_WAITING};

use crate::connection::process;
use crate::ring::record;
use crate::sys;

/// CPython's oldest generation: its collection examines all generations.
const OLDEST: c_int = 2;

/// The word that the collecting thread waits on; the thread's id, 0 if there is none; its process,
/// because a forked child inherits these but not the thread.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
static COLLECTING_THREAD: AtomicU32 = AtomicU32::new(0);
static COLLECTING_PROCESS: AtomicU32 = AtomicU32::new(0);

/// The collector is watched from now on (1), or its interpreter shuts down (0).
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_collector(watched: c_int) {
    record::event(Kind::Collector, 0, watched as usize, 0);
}

/// A collection begins on the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_collect_begin(generation: c_int) {
    record::event(Kind::CollectBegin, 0, generation as usize, 0);
}

/// It has ended.
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_collect_end(generation: c_int) {
    record::event(Kind::CollectEnd, usize::from(generation >= OLDEST), generation as usize, 0);
}

/// The calling thread is the one that collects on request. It belongs to the probe: it blocks
/// signals, which are meant for the program's own threads (signal(7): the kernel chooses any thread
/// that does not block one).
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_collect_enter() {
    sys::block_signals();
    // A thread has a slot once it has written an event.
    memtrace_collector(1);
    let Some(slot) = record::slot() else { return };
    WORD.store(slot.collect.as_ptr().cast(), Ordering::Relaxed);
    COLLECTING_PROCESS.store(sys::getpid(), Ordering::Relaxed);
    COLLECTING_THREAD.store(sys::gettid(), Ordering::Release);
}

/// Waits until a collection is requested (1), or none will be any more (0).
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_collect_wait() -> c_int {
    let Some(slot) = record::slot() else { return 0 };
    let word = &slot.collect;
    // Another value than NOT: the program wanted the thread to end while it collected.
    let waits = word.compare_exchange(COLLECT_NOT, COLLECT_WAITING, Ordering::AcqRel, Ordering::Acquire);
    while waits.is_ok() && word.load(Ordering::Acquire) == COLLECT_WAITING && process::is_recorded() {
        sys::futex_wait(word, COLLECT_WAITING, 1_000_000_000);
    }
    let requested =
        word.compare_exchange(COLLECT_REQUESTED, COLLECT_NOT, Ordering::AcqRel, Ordering::Relaxed);
    c_int::from(requested.is_ok())
}

/// Ends the thread that waits for collections, and returns when it is gone: a program is to find as
/// many threads as it has started itself, where it counts them (CPython 3.12's `os.fork` does). A
/// second at most: it may be in a finalizer of the program that does not return.
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_collect_stop() {
    let thread = COLLECTING_THREAD.swap(0, Ordering::AcqRel);
    // SAFETY: null, or the word of a slot, which stays mapped for the life of the process.
    let Some(word) = (unsafe { WORD.load(Ordering::Relaxed).as_ref() }) else { return };
    if thread == 0 || COLLECTING_PROCESS.load(Ordering::Relaxed) != sys::getpid() {
        return;
    }
    word.store(COLLECT_NO_MORE, Ordering::Release);
    sys::futex_wake(word);
    let start = sys::monotonic_ns();
    while sys::has_thread(thread) && sys::monotonic_ns() - start < 1_000_000_000 {
        sys::nanosleep(50_000);
    }
}
