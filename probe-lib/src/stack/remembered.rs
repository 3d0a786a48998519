//! What a thread remembers of call stacks: those it has seen, with all that unwinding has read
//! ([`cache`]), so that most stacks are found by comparing a few words.

use super::caller::Caller;
use super::modules::{self, Announced};
use super::unwind::cache::{Cache, Missed, NOT_KEPT};
use super::unwind::reads::Reads;
use super::unwind::rules::Rules;
use super::unwind::walk::{Frames, walk};
use crate::python::frames::PythonFrames;
use crate::ring::thread_memory::{Content, Pool};
use crate::tls::Thread;

/// What a thread remembers. All zeroes is nothing.
#[repr(C)]
pub struct Stacks {
    /// Of the modules that were loaded when this was remembered.
    generation: u32,
    /// Frame pointer of the probe's caller, and the Python thread state, 0 if there is none: what
    /// begins with them may be read like any other word.
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
}

impl Stacks {
    /// Forgets everything: the thread is another one, or writes into another ring.
    pub fn forget(&mut self) {
        self.forget_code(modules::generation());
        self.reads.forget_stack();
    }

    /// The number of the stack that `caller` is the innermost frame of, if it is remembered.
    ///
    /// # Safety
    /// `caller` and `bp` are those of the probe's caller, on this thread, now.
    #[inline(always)]
    pub unsafe fn find(&mut self, caller: Caller, bp: usize, thread_state: usize) -> Result<u16, Missed> {
        let generation = modules::generation();
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

    /// Announces the modules that the last walk led through, if it met new code.
    /// Call it with the guard held.
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

// SAFETY: all zeroes is nothing remembered.
unsafe impl Content for Stacks {
    fn change_owner(&mut self) {
        self.forget();
    }
}

static POOL: Pool<Stacks> = Pool::new();

/// What the thread remembers; `None` where there is no memory for it. A signal handler that comes
/// in between does not use it.
#[cold]
pub fn claim(thread: &mut Thread) -> Option<&'static mut Stacks> {
    POOL.claim(&mut thread.stacks);
    of(thread)
}

/// The same, if there is something.
#[inline(always)]
pub fn of(thread: &mut Thread) -> Option<&'static mut Stacks> {
    // SAFETY: null or the thread's own.
    unsafe { thread.stacks.cast::<Stacks>().as_mut() }
}
