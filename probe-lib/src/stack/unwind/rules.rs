//! Which rule unwinds a program counter: looked up in the module it lies in, and remembered.

use super::cfi::{self, Rule};
use crate::stack::modules;

/// Rules that are remembered; each program counter has one place.
const PLACES: usize = 512;

/// The rules a thread has used. All zeroes is none.
#[repr(C)]
pub struct Rules {
    counters: [usize; PLACES],
    rules: [Rule; PLACES],
    /// A rule was looked up that was not remembered.
    pub met_new_code: bool,
}

impl Rules {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counters.fill(0);
    }

    /// The rule for an instruction.
    #[inline]
    pub fn of(&mut self, counter: usize) -> Rule {
        let place = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES.trailing_zeros());
        let (Some(known), Some(rule)) = (self.counters.get_mut(place), self.rules.get_mut(place)) else {
            return Rule::UNKNOWN;
        };
        if *known != counter || counter == 0 {
            *rule = find(counter);
            *known = counter;
            self.met_new_code = true;
        }
        *rule
    }
}

#[cold]
#[inline(never)]
fn find(counter: usize) -> Rule {
    match modules::find(counter) {
        None => Rule::undescribed(),
        // SAFETY: the dynamic linker says that it is mapped, and where its `.eh_frame_hdr` is.
        Some(module) => unsafe { cfi::rule(module.index, counter) },
    }
}
