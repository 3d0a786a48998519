//! From a frame to its caller's, and so on to the end.

use memtrace_wire::stack::NATIVE_FRAMES_MAX;

use super::cfi::{Cfa, Saved, UCONTEXT_BP, UCONTEXT_IP, UCONTEXT_SP};
use super::reads::Reads;
use super::rules::Rules;
use crate::stack::entry::Caller;

/// Addresses of the frames, innermost first: each less one lies in its frame's function.
#[repr(C)]
pub struct Frames {
    count: usize,
    list: [u64; NATIVE_FRAMES_MAX],
}

impl Frames {
    /// The addresses.
    pub fn list(&self) -> &[u64] {
        self.list.get(..self.count).unwrap_or(&[])
    }

    fn push(&mut self, address: usize) -> Option<()> {
        *self.list.get_mut(self.count)? = address as u64;
        self.count += 1;
        Some(())
    }
}

/// Where a frame's frame pointer is.
#[derive(Clone, Copy)]
enum Bp {
    /// In the register: the thread has noted it at this address.
    Noted(usize),
    /// On the stack.
    At(usize),
    Is(usize),
    Lost,
}

impl Bp {
    /// Its value. It is read only where a rule needs it: code without frame pointers
    /// has arbitrary values there.
    fn value(&mut self, reads: &mut Reads) -> Option<usize> {
        let value = match *self {
            // SAFETY: a word of the thread's own state.
            Bp::Noted(address) => unsafe { reads.live(address) as usize },
            Bp::At(address) => reads.stack(address)? as usize,
            Bp::Is(value) => value,
            Bp::Lost => return None,
        };
        *self = Bp::Is(value);
        Some(value)
    }
}

/// Walks from `caller` outwards; `bp` is where its frame pointer was noted. True if the outermost
/// frame was reached.
pub fn walk(
    caller: Caller,
    bp: *const usize,
    rules: &mut Rules,
    reads: &mut Reads,
    frames: &mut Frames,
) -> bool {
    frames.count = 0;
    reads.begin(caller.sp);
    let first = Place { counter: caller.address.wrapping_sub(1), sp: caller.sp, bp: Bp::Noted(bp as usize) };
    to_the_end(first, rules, reads, frames).is_some()
}

/// Where a frame is.
struct Place {
    /// An instruction: the call, or what a signal interrupted.
    counter: usize,
    sp: usize,
    bp: Bp,
}

fn to_the_end(mut now: Place, rules: &mut Rules, reads: &mut Reads, frames: &mut Frames) -> Option<()> {
    loop {
        frames.push(now.counter.wrapping_add(1))?;
        let rule = rules.of(now.counter);
        let cfa = match rule.cfa {
            Cfa::Unknown => return None,
            Cfa::End => return Some(()),
            Cfa::Signal => {
                now = interrupted(now.sp, reads)?;
                continue;
            }
            Cfa::Sp(offset) => now.sp.wrapping_add_signed(offset as isize),
            Cfa::Bp(offset) => now.bp.value(reads)?.wrapping_add_signed(offset as isize),
            Cfa::AtBp(offset) => {
                let bp = now.bp.value(reads)?;
                reads.stack(bp.wrapping_add_signed(offset as isize))? as usize
            }
            Cfa::Plt(from) => now.sp.wrapping_add(if now.counter as i32 & 15 >= from { 16 } else { 8 }),
        };
        // The stack grows downwards: a caller's part of it lies higher.
        if cfa <= now.sp {
            return None;
        }
        let bp = match rule.bp {
            Saved::Same => now.bp,
            Saved::AtCfa(offset) => Bp::At(cfa.wrapping_add_signed(offset as isize)),
            Saved::AtBp(offset) => Bp::At(now.bp.value(reads)?.wrapping_add_signed(offset as isize)),
            Saved::Lost => Bp::Lost,
        };
        let address = reads.stack(cfa.wrapping_sub(8))? as usize;
        if address == 0 {
            return Some(());
        }
        now = Place { counter: address.wrapping_sub(1), sp: cfa, bp };
    }
}

/// The frame that a signal interrupted; it may be on another stack.
fn interrupted(ucontext: usize, reads: &mut Reads) -> Option<Place> {
    let counter = reads.stack(ucontext.wrapping_add(UCONTEXT_IP))? as usize;
    let sp = reads.stack(ucontext.wrapping_add(UCONTEXT_SP))? as usize;
    // Read now: soon it may be another stack's memory that counts as there.
    let bp = reads.stack(ucontext.wrapping_add(UCONTEXT_BP))? as usize;
    reads.enter(sp);
    Some(Place { counter, sp, bp: Bp::Is(bp) })
}
