//! What the tests ask: which stack the caller has, told exactly as an allocation is told (tests/targets/unwinds.c).

use core::arch::naked_asm;

use super::{Caller, Stacks};
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

/// Tells the caller's stack.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtrace_tell_stack() {
    naked_asm!("mov rsi, rsp", "mov rdx, rbp", "jmp {tell}", tell = sym tell)
}

unsafe extern "C" fn tell(told: *mut Told, entry: *const usize, bp: usize) {
    // SAFETY: the test's call; the return address lies where `call` puts it, and the rest is the thread's own.
    unsafe {
        let (told, thread) = (&mut *told, &mut *tls::thread());
        let caller = Caller { address: *entry, sp: entry.add(1) as usize };
        if thread.stacks.is_null() {
            thread.stacks = Stacks::claim();
        }
        let Some(stacks) = thread.stacks.as_mut() else { return };
        told.is_new = 0;
        match stacks.find(caller, bp) {
            Ok(number) => told.number = number,
            Err(missed) => {
                told.is_new = 1;
                told.is_complete = u32::from(stacks.walk(caller));
                told.number = stacks.keep(&missed);
                let list = stacks.frames.list();
                told.count = list.len() as u32;
                for (to, from) in told.frames.iter_mut().zip(list) {
                    *to = *from;
                }
            }
        }
    }
}
