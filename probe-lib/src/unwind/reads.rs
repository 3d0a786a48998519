//! Reading what unwinding needs, and noting it.

use super::cache::Read;
use crate::{sandbox, sys, tls};

/// Words that are noted; a stack that takes more is not kept.
const NOTED_MAX: usize = 2048;
/// The kernel keeps all mappings but the stack this far below the top of the stack
/// (arch/x86/mm/mmap.c: MIN_GAP is 128 MiB and more). No other stack is taken to be larger.
const STACK_MAX: usize = 64 << 20;
const PAGE: usize = 4096;

/// What was read.
#[repr(C)]
pub struct Reads {
    /// The part of a stack that is surely there.
    from: usize,
    to: usize,
    /// How far down the thread's own stack was found to be there.
    lowest: usize,
    count: usize,
    /// Something cannot be read again without care, or too much was read.
    once: bool,
    noted: [Read; NOTED_MAX],
}

impl Reads {
    /// Before a stack whose pointer is at `sp`.
    pub fn begin(&mut self, sp: usize) {
        self.count = 0;
        self.once = false;
        self.enter(sp);
    }

    /// Goes on on the stack that `sp` points into.
    pub fn enter(&mut self, sp: usize) {
        (self.from, self.to) = (sp, top_of_stack(sp, &mut self.lowest).unwrap_or(sp));
    }

    /// Forgets how far down the stack is there: another thread has this now.
    pub fn forget_stack(&mut self) {
        self.lowest = 0;
    }

    /// Every word, in order; `None` if they cannot just be read again.
    pub fn noted(&self) -> Option<&[Read]> {
        if self.once { None } else { self.noted.get(..self.count) }
    }

    /// A word of the stack, if it is there.
    #[inline]
    pub fn stack(&mut self, address: usize) -> Option<u64> {
        if address >= self.from && address < self.to.wrapping_sub(7) {
            // SAFETY: between the stack's pointer and its end.
            return Some(unsafe { self.live(address) });
        }
        self.once = true;
        let mut word = 0;
        // The kernel answers with an error where there is nothing.
        (!sandbox::is_filtered() && sys::read_own_memory(address, &mut word).is_ok()).then_some(word)
    }

    /// A word that is there.
    ///
    /// # Safety
    /// It is, as long as all words read before are what they are.
    #[inline]
    pub unsafe fn live(&mut self, address: usize) -> u64 {
        // SAFETY: as the caller promises.
        let word = unsafe { (address as *const u64).read_unaligned() };
        match self.noted.get_mut(self.count) {
            Some(noted) => *noted = Read { address, word },
            None => self.once = true,
        }
        self.count += 1;
        word
    }
}

/// The end of the main thread's stack, if `sp` points into it. What lies between is there.
pub fn top_of_main_stack(sp: usize) -> Option<usize> {
    unsafe extern "C" {
        static __libc_stack_end: usize;
    }
    // SAFETY: ld.so stores the stack pointer at process entry there, before anything else runs.
    let main = unsafe { __libc_stack_end };
    (main.wrapping_sub(sp) < STACK_MAX).then_some(main)
}

/// True if `sp` points into the stack that the thread was started with.
pub fn on_own_stack(sp: usize) -> bool {
    let main = sys::getpid() == sys::gettid();
    if main { top_of_main_stack(sp).is_some() } else { tls::control_block().wrapping_sub(sp) < STACK_MAX }
}

/// The end of the stack that `sp` points into, where it is known: of the main thread's, and of a thread's own. The
/// stacks of coroutines and signal handlers end anywhere.
fn top_of_stack(sp: usize, lowest: &mut usize) -> Option<usize> {
    if let Some(main) = top_of_main_stack(sp) {
        return Some(main);
    }
    // glibc puts a thread's control block at the top of its stack (nptl/allocatestack.c), and below the stack a page
    // that cannot be read.
    let thread = tls::control_block();
    if thread.wrapping_sub(sp) >= STACK_MAX {
        return None;
    }
    if *lowest == 0 {
        *lowest = thread;
    }
    if sp < *lowest {
        if sys::getpid() == sys::gettid() || !sys::is_readable_memory(sp & !(PAGE - 1), *lowest) {
            return None;
        }
        *lowest = sp & !(PAGE - 1);
    }
    Some(thread)
}
