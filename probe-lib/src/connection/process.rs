//! The process's side of the connection: made once per program image, noticed to be a copy after a
//! fork, and given to threads as rings.

use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use memtrace_wire::layout::{
    ACTIVE, CLAIMING, COLLECT_NOT, FREE, ORIGIN_EXEC, ORIGIN_FORK, OWNER_DIED, RECORDER_OFFSET, Recorder,
    Settings, Slot, TEXT_OFFSET,
};
use memtrace_wire::ring::Writer;

use super::{connect, hooks, segments};
use crate::arch::thread as registers;
use crate::clock::{self, stamp};
use crate::tls::Thread;
use crate::{sandbox, sys};

const NEW: u32 = 0;
const CONNECTING: u32 = 1;
const ON: u32 = 2;
/// Not recorded: there is no tracer, or it is gone. Final.
const OFF: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(NEW);
static SETTINGS: AtomicPtr<Settings> = AtomicPtr::new(null_mut());
static PID: AtomicU32 = AtomicU32::new(0);
static PARENT_PID: AtomicU32 = AtomicU32::new(0);
static ORIGIN: AtomicU32 = AtomicU32::new(ORIGIN_EXEC);
static IMAGE: AtomicU64 = AtomicU64::new(0);
static PARENT_IMAGE: AtomicU64 = AtomicU64::new(0);

/// 1 in the process that wrote it, 0 in a forked copy: once connected, this points to a page that
/// the kernel wipes on fork (madvise(2), MADV_WIPEONFORK). That also sees `_Fork` and raw `clone`,
/// which run no atfork handlers, and is not fooled by `vfork`, whose child shares the memory.
static ALIVE: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const ALWAYS).cast_mut());
static ALWAYS: AtomicU32 = AtomicU32::new(1);

/// True in a forked child that has not noticed yet.
#[inline(always)]
pub fn forked() -> bool {
    // SAFETY: points to `ALWAYS` or to a page that stays mapped.
    unsafe { (*ALIVE.load(Ordering::Relaxed)).load(Ordering::Relaxed) == 0 }
}

/// The word that is 1 in this process and 0 in a forked copy.
pub fn alive() -> *mut AtomicU32 {
    ALIVE.load(Ordering::Relaxed)
}

/// True if no tracer will ever read what is recorded here: each event would cost system calls to
/// find that out again.
pub fn is_off() -> bool {
    STATE.load(Ordering::Relaxed) == OFF
}

/// True while a tracer reads what is recorded here.
pub fn is_recorded() -> bool {
    STATE.load(Ordering::Acquire) == ON && !tracer_gone()
}

fn recorder() -> &'static Recorder {
    // SAFETY: follows the settings, which are mapped for the life of the process; all fields are
    // atomics.
    unsafe { &*SETTINGS.load(Ordering::Relaxed).byte_add(RECORDER_OFFSET).cast() }
}

/// True if the tracer does not read any more (call it only while recorded).
pub fn tracer_gone() -> bool {
    let recorder = recorder();
    let gone = recorder.detached.load(Ordering::Relaxed) != 0
        || recorder.tracer.futex.load(Ordering::Relaxed) & OWNER_DIED != 0;
    if gone {
        STATE.store(OFF, Ordering::Relaxed);
    }
    gone
}

/// True if no further segment can be mapped in what the process may map.
pub fn lacks_address_space() -> bool {
    segments::lacks_address_space()
}

/// Wakes the tracer if it sleeps (call it only while recorded).
pub fn wake_tracer() {
    let sleeping = &recorder().sleeping;
    if sleeping.load(Ordering::Relaxed) == 1 {
        // It looks here before it falls asleep.
        segments::header().rung.store(1, Ordering::SeqCst);
        sys::futex_wake(sleeping);
    }
}

/// Counts an event that is lost because no slot was free (call it only while recorded).
pub fn lose_without_slot() {
    segments::header().lost_without_slot.fetch_add(1, Ordering::Relaxed);
}

/// True if the process began by fork, and not by exec.
pub fn is_forked_copy() -> bool {
    ORIGIN.load(Ordering::Relaxed) == ORIGIN_FORK || forked()
}

/// First stamp of the process image: with its pid it names it.
pub fn image() -> u64 {
    IMAGE.load(Ordering::Relaxed)
}

/// Connects on the first call, with `connected` run before any thread records; adopts the
/// connection in a forked child. True if the process is recorded.
pub fn attached(thread: &mut Thread, connected: fn(&Settings)) -> bool {
    if STATE.load(Ordering::Acquire) == ON && forked() {
        adopt_after_fork(thread);
    }
    if STATE.load(Ordering::Acquire) == NEW {
        connect_once(connected);
    }
    // Another thread of a starting process may be connecting; it takes microseconds.
    let mut tries = 10_000;
    while STATE.load(Ordering::Acquire) == CONNECTING && tries > 0 {
        sys::sched_yield();
        tries -= 1;
    }
    if !is_recorded() {
        return false;
    }
    hooks::recorded();
    true
}

fn connect_once(connected: fn(&Settings)) {
    if STATE.compare_exchange(NEW, CONNECTING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    let (pid, image) = (sys::getpid(), stamp());
    let mapped = connect::shared(pid, image);
    let alive = fork_page();
    let Some(mapped) = mapped.filter(|mapped| !alive.is_null() && segments::add(mapped.segment)) else {
        STATE.store(OFF, Ordering::Release);
        return;
    };
    SETTINGS.store(mapped.settings, Ordering::Relaxed);
    ALIVE.store(alive, Ordering::Relaxed);
    IMAGE.store(image, Ordering::Relaxed);
    note_pids(pid);
    sandbox::find();
    // SAFETY: mapped for the life of the process; the file is sealed, so it never changes.
    let settings = unsafe { &*mapped.settings };
    clock::set(settings.clock);
    connected(settings);
    STATE.store(ON, Ordering::Release);
    if mapped.segment.is_placed() {
        hooks::placed(&settings.placement, mapped.table);
    }
}

fn note_pids(pid: u32) {
    PID.store(pid, Ordering::Relaxed);
    PARENT_PID.store(sys::getppid(), Ordering::Relaxed);
}

/// True in a vforked child of a recorded process, which borrows its parent's memory, thread and
/// rings until it executes a program.
pub fn is_borrowed() -> bool {
    let noted = PID.load(Ordering::Relaxed);
    noted != 0 && noted != sys::getpid() && !forked()
}

/// A page with a 1 in it that a fork wipes; null if the kernel cannot (before 4.14).
fn fork_page() -> *mut AtomicU32 {
    let Some(page) = sys::map_memory(4096) else { return null_mut() };
    let advice = libc::MADV_WIPEONFORK as usize;
    // SAFETY: the page is our own; `madvise` acts on nothing else.
    unsafe {
        if sys::syscall(libc::SYS_madvise, [page as usize, 4096, advice, 0, 0, 0]) < 0 {
            return null_mut();
        }
        let alive = page.cast::<AtomicU32>();
        (*alive).store(1, Ordering::Relaxed);
        alive
    }
}

/// The child of a fork is a process of its own that shares the parent's segments: it needs a new
/// name and rings of its own. The forking thread is the only one at first, but may start others
/// before it allocates.
fn adopt_after_fork(thread: &mut Thread) {
    // SAFETY: the page stays mapped, wiped or not.
    let alive = unsafe { &*ALIVE.load(Ordering::Relaxed) };
    thread.writer = Writer::NONE;
    // Its owner is a thread of the parent.
    (thread.stacks, thread.deferred_events) = (null_mut(), null_mut());
    // fork(3) and _Fork(3) register the child's robust list; a raw clone(2) does not, and
    // the slots of such a child would never be marked.
    let list = ROBUST_LIST.load(Ordering::Relaxed);
    if list != 0 && sys::robust_list() == 0 {
        sys::set_robust_list(registers::control_block().wrapping_add(list));
    }
    if alive.compare_exchange(0, 2, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        PARENT_IMAGE.store(IMAGE.load(Ordering::Relaxed), Ordering::Relaxed);
        IMAGE.store(stamp(), Ordering::Relaxed);
        note_pids(sys::getpid());
        ORIGIN.store(ORIGIN_FORK, Ordering::Relaxed);
        segments::forked();
        hooks::forked();
        alive.store(1, Ordering::Release);
    }
}

/// Claims a free slot for the calling thread, of a further segment if need be; false if there is
/// none now. No signal may come in between.
pub fn claim(thread: &mut Thread) -> bool {
    let now = stamp();
    loop {
        if let Some(writer) = segments::claim(|slot| claim_slot(slot, now)) {
            thread.writer = writer;
            note_robust_list();
            return true;
        }
        if !segments::fetch(PID.load(Ordering::Relaxed), IMAGE.load(Ordering::Relaxed)) {
            return false;
        }
    }
}

/// The program will install a filter, perhaps, that allows no more hellos: it has slots for many
/// threads from now on.
pub fn prepare_for_filter() {
    if is_recorded() && !forked() && !is_borrowed() && segments::only_first() {
        let mask = sys::block_signals();
        segments::fetch(PID.load(Ordering::Relaxed), IMAGE.load(Ordering::Relaxed));
        sys::set_signal_mask(mask);
    }
}

/// Where the C library keeps a thread's robust list, counted from the thread's
/// control block: the same for all.
static ROBUST_LIST: AtomicUsize = AtomicUsize::new(0);

fn note_robust_list() {
    let list = sys::robust_list();
    if list != 0 {
        ROBUST_LIST.store(list.wrapping_sub(registers::control_block()), Ordering::Relaxed);
    }
}

fn claim_slot(slot: &Slot, now: u64) -> bool {
    if slot.state.load(Ordering::Relaxed) != FREE
        || slot.state.compare_exchange(FREE, CLAIMING, Ordering::AcqRel, Ordering::Relaxed).is_err()
    {
        return false;
    }
    slot.pid.store(PID.load(Ordering::Relaxed), Ordering::Relaxed);
    slot.ppid.store(PARENT_PID.load(Ordering::Relaxed), Ordering::Relaxed);
    slot.origin.store(ORIGIN.load(Ordering::Relaxed), Ordering::Relaxed);
    slot.image.store(IMAGE.load(Ordering::Relaxed), Ordering::Relaxed);
    slot.parent_image.store(PARENT_IMAGE.load(Ordering::Relaxed), Ordering::Relaxed);
    slot.claimed.store(now, Ordering::Relaxed);
    for counter in [&slot.head, &slot.tail, &slot.lost, &slot.waited_ns] {
        counter.store(0, Ordering::Relaxed);
    }
    slot.open.store(0, Ordering::Relaxed);
    slot.collect.store(COLLECT_NOT, Ordering::Relaxed);
    lock_owner(slot);
    slot.state.store(ACTIVE, Ordering::Release);
    true
}

/// Locks the slot's robust mutex for the rest of the thread's life: the kernel marks it when the
/// thread ends by exit, exec or a signal (set_robust_list(2)), so that no exit hook is needed.
fn lock_owner(slot: &Slot) {
    let mut attributes = MaybeUninit::uninit();
    let mutex = (&raw const slot.owner).cast_mut().cast();
    // SAFETY: the slot is claimed, so no other thread touches its mutex; the
    // attributes live on the stack.
    unsafe {
        libc::pthread_mutexattr_init(attributes.as_mut_ptr());
        libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
        libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
        libc::pthread_mutex_init(mutex, attributes.as_ptr());
        libc::pthread_mutex_lock(mutex);
    }
    // The kernel marks only what bears the id of the thread that ends. The C library writes the id
    // it remembers: in the child of a raw clone(2) the parent's, which is wrong; in a vforked child
    // too, which is right.
    if !is_borrowed() {
        slot.owner.futex.store(sys::gettid(), Ordering::Relaxed);
    }
    slot.tid.store(slot.owner.futex.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// The text that the tracer wants Python to run, if there is one (call it only while recorded).
pub fn text() -> Option<*const c_char> {
    // SAFETY: the text follows the settings, in the same mapping.
    let text =
        unsafe { SETTINGS.load(Ordering::Relaxed).byte_add(TEXT_OFFSET).cast_const().cast::<c_char>() };
    // SAFETY: the text ends in a zero, so it has a first byte.
    (unsafe { text.read() } != 0).then_some(text)
}
