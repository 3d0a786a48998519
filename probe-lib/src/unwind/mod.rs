//! Call stacks of the calling thread: unwound by the rules of `.eh_frame`, exact for every program counter they
//! cover, and remembered with all that unwinding has read ([`cache`]), so that most stacks are told by
//! comparing a few words.

pub mod cache;
mod cfi;
mod reads;
mod rules;
mod tested;
mod walk;

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

pub use self::cache::Missed;
use self::cache::{Cache, NOT_KEPT};
pub use self::reads::{Reads, on_own_stack, top_of_main_stack};
use self::rules::Rules;
pub use self::walk::Caller;
use self::walk::{Frames, walk};
use crate::aside::Kept;
use crate::modules::Announced;
use crate::python_frames::PythonFrames;
use crate::tls::Thread;
use crate::{next, openmp, process, sandbox, sys};

/// What a thread remembers. All zeroes is nothing.
#[repr(C)]
pub struct Stacks {
    /// Kernel id of the thread that this belongs to.
    owner: AtomicU32,
    /// The next in the list of all, null at its end.
    next: *mut Stacks,
    /// Of the modules that were loaded when this was remembered.
    generation: u32,
    /// Frame pointer of the probe's caller, and the Python thread state, 0 if there is none: what begins with them may
    /// be read like any other word.
    bp: usize,
    /// As above.
    pub thread_state: usize,
    rules: Rules,
    cache: Cache,
    announced: Announced,
    /// What the last walk has read.
    pub reads: Reads,
    /// Where it led to.
    pub frames: Frames,
    /// The same in Python.
    pub python: PythonFrames,
    /// Events of signal handlers that came in between.
    pub aside: Kept,
}

/// Those of all threads there ever were at one time.
static ALL: AtomicPtr<Stacks> = AtomicPtr::new(null_mut());
/// Changes before and after modules are unloaded: then an address may mean another function.
static GENERATION: AtomicU32 = AtomicU32::new(0);

impl Stacks {
    /// For the calling thread: those of one that has ended, or new ones. Null without memory.
    #[cold]
    pub fn claim() -> *mut Stacks {
        // A vforked child would take its parent's threads for dead: they are not of its process.
        if process::is_borrowed() {
            return null_mut();
        }
        let me = sys::gettid();
        let mut all = ALL.load(Ordering::Acquire);
        // SAFETY: what is in the list stays mapped; `next` does not change, `owner` is atomic.
        while let Some(stacks) = unsafe { all.as_ref() } {
            let owner = stacks.owner.load(Ordering::Relaxed);
            if owner != me && !sandbox::is_filtered() && !sys::has_thread(owner) && stacks.give(owner, me) {
                // SAFETY: the thread's own from now on.
                unsafe { (*all).forget() };
                return all;
            }
            all = stacks.next;
        }
        Stacks::new(me)
    }

    fn give(&self, from: u32, to: u32) -> bool {
        self.owner.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn new(owner: u32) -> *mut Stacks {
        let Some(memory) = sys::map_memory(size_of::<Stacks>()) else { return null_mut() };
        let new: *mut Stacks = memory.cast();
        let mut first = ALL.load(Ordering::Relaxed);
        loop {
            // SAFETY: new memory, nobody else's until it is in the list.
            unsafe {
                (*new).owner.store(owner, Ordering::Relaxed);
                (*new).next = first;
            }
            match ALL.compare_exchange_weak(first, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return new,
                Err(now) => first = now,
            }
        }
    }

    /// Forgets everything: the thread is another one, or writes into another ring.
    pub fn forget(&mut self) {
        self.forget_code(GENERATION.load(Ordering::Acquire));
        self.reads.forget_stack();
    }

    /// The number of the stack that `caller` is the innermost frame of, if it is remembered.
    ///
    /// # Safety
    /// `caller` and `bp` are those of the probe's caller, on this thread, now.
    #[inline(always)]
    pub unsafe fn find(&mut self, caller: Caller, bp: usize, thread_state: usize) -> Result<u16, Missed> {
        let generation = GENERATION.load(Ordering::Acquire);
        if self.generation != generation {
            self.forget_code(generation);
        }
        (self.bp, self.thread_state) = (bp, thread_state);
        // SAFETY: as the caller promises; what is kept was noted by walks.
        unsafe { self.cache.find(caller.address, caller.sp) }
    }

    #[cold]
    #[inline(never)]
    fn forget_code(&mut self, generation: u32) {
        self.rules.clear();
        self.cache.clear();
        self.announced.clear();
        self.generation = generation;
    }

    /// Unwinds the stack. True if that led to its outermost frame.
    pub fn walk(&mut self, caller: Caller) -> bool {
        self.rules.met_new_code = false;
        walk(caller, &raw const self.bp, &mut self.rules, &mut self.reads, &mut self.frames)
    }

    /// Tells the tracer of the modules that the last walk led through, if it came upon new code. Call it with the guard
    /// held.
    pub fn announce_modules(&mut self, thread: &mut Thread) {
        if self.rules.met_new_code {
            self.announced.announce(thread, self.frames.list());
        }
    }

    /// Remembers what was walked, and what was read since. Its number.
    pub fn keep(&mut self, missed: &Missed) -> u16 {
        let noted = self.reads.noted();
        noted.and_then(|noted| self.cache.keep(missed, noted)).unwrap_or(NOT_KEPT)
    }
}

/// dlclose(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(library: *mut c_void) -> c_int {
    GENERATION.fetch_add(1, Ordering::AcqRel);
    openmp::forget();
    // SAFETY: the program's call, passed on.
    let result = unsafe { next::dlclose(library) };
    GENERATION.fetch_add(1, Ordering::AcqRel);
    result
}
