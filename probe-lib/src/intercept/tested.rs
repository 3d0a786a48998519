//! For the tests: the caller's stack, unwound and remembered exactly as that of an allocation
//! (tests/targets/unwinds.c).

use crate::arch::entry::{Entry, entered};
use crate::stack::caller::Caller;
use crate::stack::remembered;
use crate::tls;

/// The answer: a stack's number and, where it was not remembered, its frames.
#[repr(C)]
pub struct Report {
    number: u32,
    is_new: u32,
    is_complete: u32,
    count: u32,
    frames: [u64; 256],
}

entered! {
    /// Reports the caller's stack.
    #[unsafe(no_mangle)]
    memtrace_report_stack(report: *mut Report) -> () => fill;
}

unsafe extern "C" fn fill(report: *mut Report, entry: Entry) {
    // SAFETY: the test's call; the rest is the thread's own.
    unsafe {
        let (report, thread) = (&mut *report, &mut *tls::thread());
        let Some(stacks) = remembered::claim(thread) else { return };
        report.is_new = 0;
        match stacks.find(Caller::of(entry), entry.bp(), 0) {
            Ok(number) => report.number = u32::from(number),
            Err(missed) => {
                report.is_new = 1;
                report.is_complete = u32::from(stacks.walk(Caller::of(entry)));
                report.number = u32::from(stacks.keep(&missed));
                let list = stacks.frames.list();
                report.count = list.len() as u32;
                for (to, from) in report.frames.iter_mut().zip(list) {
                    *to = *from;
                }
            }
        }
    }
}
