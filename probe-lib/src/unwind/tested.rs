//! What the tests ask: which stack the caller has, told exactly as an allocation is told (tests/targets/unwinds.c).

use super::Stacks;
use crate::entry::{Entry, entered};
use crate::tls;

/// The answer: a stack's number and, where it was not remembered, its frames.
#[repr(C)]
pub struct Told {
    number: u32,
    is_new: u32,
    is_complete: u32,
    count: u32,
    frames: [u64; 256],
}

entered! {
    /// Tells the caller's stack.
    #[unsafe(no_mangle)]
    memtrace_tell_stack(told: *mut Told) -> (), "rsi", "rdx" => tell;
}

unsafe extern "C" fn tell(told: *mut Told, entry: Entry) {
    // SAFETY: the test's call; the rest is the thread's own.
    unsafe {
        let (told, thread) = (&mut *told, &mut *tls::thread());
        if thread.stacks.is_null() {
            thread.stacks = Stacks::claim();
        }
        let Some(stacks) = thread.stacks.as_mut() else { return };
        told.is_new = 0;
        match stacks.find(entry.caller(), entry.bp, 0) {
            Ok(number) => told.number = u32::from(number),
            Err(missed) => {
                told.is_new = 1;
                told.is_complete = u32::from(stacks.walk(entry.caller()));
                told.number = u32::from(stacks.keep(&missed));
                let list = stacks.frames.list();
                told.count = list.len() as u32;
                for (to, from) in told.frames.iter_mut().zip(list) {
                    *to = *from;
                }
            }
        }
    }
}
