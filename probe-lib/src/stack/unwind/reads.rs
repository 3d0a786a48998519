//! Reading what unwinding needs, and noting it.

use super::cache::Read;
use crate::own_stack::top_of_stack;
use crate::python::frames::NotedReads;
use crate::{sandbox, sys};

/// Most words that are noted; a stack that needs more is not cached.
const NOTED_MAX: usize = 2048;

/// What was read.
#[repr(C)]
pub struct Reads {
    /// The part of a stack that is surely there.
    from: usize,
    to: usize,
    /// How far down the thread's own stack was found to be there.
    lowest: usize,
    count: usize,
    /// A word cannot simply be read again, or too much was read.
    is_volatile: bool,
    noted: [Read; NOTED_MAX],
}

impl Reads {
    /// Before a stack whose pointer is at `sp`.
    pub fn begin(&mut self, sp: usize) {
        self.count = 0;
        self.is_volatile = false;
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
        if self.is_volatile { None } else { self.noted.get(..self.count) }
    }

    /// A word of the stack, if it is there.
    #[inline]
    pub fn stack(&mut self, address: usize) -> Option<u64> {
        if address >= self.from && address < self.to.wrapping_sub(7) {
            // SAFETY: between the stack's pointer and its end.
            return Some(unsafe { self.live(address) });
        }
        self.is_volatile = true;
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
            None => self.is_volatile = true,
        }
        self.count += 1;
        word
    }
}

impl NotedReads for Reads {
    #[inline]
    unsafe fn live(&mut self, address: usize) -> u64 {
        // SAFETY: as the caller promises.
        unsafe { Reads::live(self, address) }
    }
}
