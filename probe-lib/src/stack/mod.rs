//! The call stack of what was acquired: a number that the tracer knows it by, described to the
//! tracer first if the thread has not seen the stack before.

pub mod caller;
pub mod hidden;
pub mod modules;
pub mod remembered;
mod unwind;

use memtrace_wire::event::Kind;
use memtrace_wire::stack::FramesHead;

use self::caller::Caller;
use self::remembered::Stacks;
use self::unwind::cache::Missed;
use crate::arch::entry::Entry;
use crate::python::frames::thread_state;
use crate::ring::record::push_inside;
use crate::ring::stack::CallStack;
use crate::tls::Thread;

impl CallStack for Entry {
    #[inline(always)]
    fn known(self, thread: &mut Thread) -> Option<u16> {
        find(remembered::of(thread)?, self).ok()
    }

    #[cold]
    #[inline(never)]
    fn number(self, thread: &mut Thread) -> u16 {
        let Some(stacks) = remembered::claim(thread) else { return 0 };
        find(stacks, self).unwrap_or_else(|missed| describe(thread, stacks, self, &missed).unwrap_or(0))
    }
}

#[inline(always)]
fn find(stacks: &mut Stacks, entry: Entry) -> Result<u16, Missed> {
    // SAFETY: the program's call, which has not returned.
    unsafe { stacks.find(Caller::of(entry), entry.bp(), thread_state() as usize) }
}

/// Forgets all stacks: a jump out of a signal handler may have left something half written.
#[cold]
#[inline(never)]
pub fn forget(thread: &mut Thread) {
    if let Some(stacks) = remembered::of(thread) {
        stacks.forget();
    }
}

/// Unwinds a stack and describes it to the tracer. Its number; `None` if
/// there was no room for that.
fn describe(thread: &mut Thread, stacks: &mut Stacks, entry: Entry, missed: &Missed) -> Option<u16> {
    let native_end = stacks.walk(Caller::of(entry));
    stacks.announce_modules(thread);
    let python_end = stacks.python.walk(&raw const stacks.thread_state, &mut stacks.reads);
    stacks.python.describe(thread);
    let number = stacks.keep(missed);
    let (native, python) = (stacks.frames.list(), stacks.python.list());
    let complete = native_end && python_end;
    let shown = native.iter().copied().filter(|address| !hidden::is(*address as usize));
    let count = shown.clone().count();
    let head = FramesHead { native: count, python: python.len(), complete }.word();
    let text = core::iter::once(head).chain(shown).chain(python.iter().flatten().copied());
    let bytes = (1 + count + 2 * python.len()) * 8;
    if !push_inside(thread, Kind::Frames, u64::from(number), bytes, text) {
        stacks.forget();
        return None;
    }
    Some(number)
}
