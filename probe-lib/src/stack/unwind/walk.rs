//! From a frame to its caller's, and so on to the end.

use memtrace_wire::stack::NATIVE_FRAMES_MAX;

use super::cfi::{Cfa, Saved};
use super::reads::Reads;
use super::rules::Rules;
use crate::arch::address::unsigned;
use crate::arch::unwind::{LinkRegister, saved};
use crate::stack::caller::Caller;

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
    let first = Place {
        counter: caller.address.wrapping_sub(1),
        sp: caller.sp,
        bp: Bp::Noted(bp as usize),
        link: LinkRegister::LOST,
    };
    to_the_end(first, rules, reads, frames).is_some()
}

/// Where a frame is.
struct Place {
    /// An instruction: the call, or what a signal interrupted.
    counter: usize,
    sp: usize,
    bp: Bp,
    link: LinkRegister,
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
        if cfa < now.sp || cfa == now.sp && rule.link.is_on_stack() {
            return None;
        }
        let bp = match rule.bp {
            Saved::Same => now.bp,
            Saved::AtCfa(offset) => Bp::At(cfa.wrapping_add_signed(offset as isize)),
            Saved::AtBp(offset) => Bp::At(now.bp.value(reads)?.wrapping_add_signed(offset as isize)),
            Saved::Lost => Bp::Lost,
        };
        let Some(address) = rule.link.follow(cfa, now.link, |address| reads.stack(address)) else {
            // In a register that was lost: code without a description has called another function.
            return if rule.link.is_on_stack() { None } else { by_records(now, reads, frames) };
        };
        let address = unsigned(address);
        if address == 0 {
            return Some(());
        }
        now = Place { counter: address.wrapping_sub(1), sp: cfa, bp, link: LinkRegister::LOST };
    }
}

/// The frames beyond one that has no description, by the records that frame pointers lead to (AAPCS64,
/// section 6.4.6): each has the caller's and the return address. They do not say where the stack
/// pointer was, so descriptions are of no more use.
fn by_records(mut now: Place, reads: &mut Reads, frames: &mut Frames) -> Option<()> {
    let (mut record, mut above) = (now.bp.value(reads)?, now.sp);
    while record >= above && record.is_multiple_of(16) {
        let (bp, address) = (reads.stack(record)? as usize, reads.stack(record.wrapping_add(8))? as usize);
        if address == 0 {
            return Some(());
        }
        frames.push(unsigned(address))?;
        if bp == 0 {
            return Some(());
        }
        (above, record) = (record.wrapping_add(16), bp);
    }
    None
}

/// The frame that a signal interrupted; it may be on another stack.
fn interrupted(frame: usize, reads: &mut Reads) -> Option<Place> {
    let counter = reads.stack(frame.wrapping_add(saved::IP))? as usize;
    let sp = reads.stack(frame.wrapping_add(saved::SP))? as usize;
    // Read now: soon it may be another stack's memory that counts as there.
    let bp = reads.stack(frame.wrapping_add(saved::BP))? as usize;
    let link = LinkRegister::interrupted(frame, |address| reads.stack(address))?;
    reads.enter(sp);
    Some(Place { counter, sp, bp: Bp::Is(bp), link })
}
