//! Per-thread state in initial-exec TLS: one load and one addition away, no `__tls_get_addr`, which
//! may allocate. Stable Rust has no thread-locals without std, so the block is laid out in
//! assembly; the C library zeroes it for every thread, and all zeroes is a valid [`Thread`].

use core::arch::global_asm;
use core::ffi::c_void;
use core::mem::offset_of;
use core::sync::atomic::AtomicUsize;

use memtrace_wire::ring::Writer;

use crate::arch::thread::of_thread;

/// What the probe keeps per thread.
#[repr(C)]
pub struct Thread {
    /// What the thread remembers of call stacks; null before the first.
    pub stacks: *mut c_void,
    /// State of the generator that sampling draws with; 0: nothing was drawn yet.
    pub random: u64,
    /// Where deferred events are; null before the first.
    pub deferred_events: *mut c_void,
    /// How many of them have been written.
    pub deferred_written: usize,
    /// No slot came free for too long; events are dropped until one is.
    pub slotless: bool,
    /// The ring stayed full for too long; events are dropped until there is room.
    pub dropping: bool,
    pad: [u64; 1],
    /// The thread's ring.
    pub writer: Writer,
    /// Stack address of the probe frame that is at work, 0 if none is.
    pub guard: usize,
    /// The block that an `operator delete` of the allocator is releasing, recorded
    /// already; it may call `free`.
    pub releasing: usize,
    /// Bytes to the next block that is sampled.
    pub unsampled: i64,
    /// Deferred events: those that wait until the one that a signal handler interrupted is written.
    /// Handlers may interrupt each other, but each returns before what it interrupted goes on.
    pub deferred: AtomicUsize,
}

const _: () = assert!(size_of::<Thread>() <= 128 && align_of::<Thread>() <= 64);
// What the hot path touches lies on one cache line.
const _: () = assert!((offset_of!(Thread, writer) + Writer::HOT_OFFSET).is_multiple_of(64));
const _: () = assert!(offset_of!(Thread, deferred) < offset_of!(Thread, writer) + Writer::HOT_OFFSET + 64);

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".p2align 6",
    ".hidden memtrace_thread",
    ".globl memtrace_thread",
    ".type memtrace_thread,@object",
    ".size memtrace_thread,128",
    "memtrace_thread:",
    ".zero 128",
    ".popsection",
);

/// The calling thread's state. Use it through short-lived borrows: a signal handler on the same
/// thread gets the same pointer.
#[inline(always)]
pub fn thread() -> *mut Thread {
    of_thread!("memtrace_thread")
}
