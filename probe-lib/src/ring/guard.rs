//! Whether the calling thread is inside the probe already.
//!
//! The guard is a stack address, not a flag: a `longjmp` out of a signal handler may skip the
//! probe's exit, and a flag would stay up for ever. The frame that acquired the guard is gone if it
//! lies below the stack pointer, at our own address, or if later frames have overwritten its mark.

use core::mem::MaybeUninit;
use core::ptr::{read_volatile, write_volatile};

use crate::own_stack::{on_own_stack, top_of_main_stack};
use crate::{sandbox, sys};

const MARK: u64 = 0x6d65_6d74_7261_6365;

/// A word on the stack of the function that holds the guard.
pub struct Frame(MaybeUninit<u64>);

impl Frame {
    /// One that does not hold the guard.
    #[inline(always)]
    pub fn unmarked() -> Frame {
        Frame(MaybeUninit::uninit())
    }

    /// Marks the frame; the guard's value.
    #[inline(always)]
    pub fn mark(&mut self) -> usize {
        // SAFETY: our own word; volatile, because it is read by address.
        unsafe { write_volatile(self.0.as_mut_ptr(), MARK) };
        &raw const self.0 as usize
    }
}

/// True if the frame that acquired the guard is still active and `here` is a signal handler that
/// interrupted it.
#[cold]
#[inline(never)]
pub fn is_held(guard: usize, here: &Frame) -> bool {
    let here = &raw const here.0 as usize;
    if here == guard {
        return false;
    }
    // A handler's frames lie below what it interrupted, unless it has a stack of its own; the
    // kernel does not say so of one that is disarmed meanwhile (SS_AUTODISARM, sigaltstack(2)).
    if here > guard && !sys::on_signal_stack() && on_own_stack(here) {
        return false;
    }
    // No system call where none is needed: a handler that takes longer here than elsewhere, and
    // longer than its timer, would come back before the probe can go on.
    if here < guard && top_of_main_stack(here).is_some_and(|top| guard < top) {
        // SAFETY: further up the stack that we are on.
        return unsafe { read_volatile(guard as *const u64) } == MARK;
    }
    if sandbox::is_filtered() {
        return true;
    }
    let mut mark = 0u64;
    // The frame's stack may be unmapped (a coroutine's): let the kernel
    // read it instead of faulting.
    match sys::read_own_memory(guard, &mut mark) {
        // SAFETY: initialised above and perhaps written to by the kernel.
        Ok(()) => unsafe { read_volatile(&raw const mark) == MARK },
        Err(libc::EFAULT) => false,
        // No such call here (seccomp): trust the guard.
        Err(_) => true,
    }
}
