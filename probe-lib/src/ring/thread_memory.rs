//! Memory of a thread that would be too much for its thread-locals, which lie on every thread's
//! stack: mapped when it is first needed, and taken over from threads that have ended.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::connection::process;
use crate::{sandbox, sys};

/// What a thread keeps there.
///
/// # Safety
/// All zeroes is a valid value.
pub unsafe trait Content {
    /// Another thread has it from now on.
    fn change_owner(&mut self);
}

/// The memory of one thread.
#[repr(C)]
struct Piece<T> {
    content: T,
    /// Kernel id of the thread that this belongs to.
    owner: AtomicU32,
    /// The next in the list of all, null at its end.
    next: *mut Piece<T>,
}

/// That of all threads there ever were at one time.
pub struct Pool<T> {
    all: AtomicPtr<Piece<T>>,
}

impl<T: Content> Pool<T> {
    /// An empty pool.
    pub const fn new() -> Pool<T> {
        Pool { all: AtomicPtr::new(null_mut()) }
    }

    /// Sees to it that the thread has its memory at `place`, which stays null where there is none.
    /// No signal may come in between: its handler would claim another piece.
    #[cold]
    pub fn claim(&self, place: &mut *mut c_void) {
        if place.is_null() {
            let mask = sys::block_signals();
            if place.is_null() {
                *place = self.find().cast();
            }
            sys::set_signal_mask(mask);
        }
    }

    /// The piece of a thread that has ended, or a new one. Null without memory.
    #[cold]
    fn find(&self) -> *mut Piece<T> {
        // A vforked child would take its parent's threads for dead: they are not of its process.
        if process::is_borrowed() {
            return null_mut();
        }
        let me = sys::gettid();
        let mut all = self.all.load(Ordering::Acquire);
        // SAFETY: what is in the list stays mapped; `next` does not change, `owner` is atomic.
        while let Some(piece) = unsafe { all.as_ref() } {
            let owner = piece.owner.load(Ordering::Relaxed);
            if owner != me && !sandbox::is_filtered() && !sys::has_thread(owner) && piece.pass_on(owner, me) {
                // SAFETY: the thread's own from now on.
                unsafe { (*all).content.change_owner() };
                return all;
            }
            all = piece.next;
        }
        self.add(me)
    }

    fn add(&self, owner: u32) -> *mut Piece<T> {
        let Some(memory) = sys::map_memory(size_of::<Piece<T>>()) else { return null_mut() };
        let new: *mut Piece<T> = memory.cast();
        let mut first = self.all.load(Ordering::Relaxed);
        loop {
            // SAFETY: new memory, only this thread has it until it is in the list.
            unsafe {
                (*new).owner.store(owner, Ordering::Relaxed);
                (*new).next = first;
            }
            match self.all.compare_exchange_weak(first, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return new,
                Err(now) => first = now,
            }
        }
    }
}

impl<T> Piece<T> {
    fn pass_on(&self, from: u32, to: u32) -> bool {
        self.owner.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
