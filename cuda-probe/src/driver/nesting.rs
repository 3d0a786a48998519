//! Whether the calling thread is inside a call of the driver already: functions of the driver may
//! call each other by their names, and then come here; only the outermost call counts.
//!
//! One word of initial-exec TLS, as in the probe: no `__tls_get_addr`, which may allocate.

use core::arch::global_asm;

use crate::arch::thread::of_thread;

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".p2align 3",
    ".hidden memtrace_cuda_nesting",
    ".globl memtrace_cuda_nesting",
    ".type memtrace_cuda_nesting,@object",
    ".size memtrace_cuda_nesting,8",
    "memtrace_cuda_nesting:",
    ".zero 8",
    ".popsection",
);

/// The calling thread's word: 1 while it is inside.
fn inside() -> *mut u64 {
    of_thread!("memtrace_cuda_nesting")
}

/// The outermost call of a thread has it.
pub struct Outermost(());

impl Outermost {
    /// `None` inside another call.
    pub fn enter() -> Option<Outermost> {
        // SAFETY: the thread's own word.
        unsafe {
            let inside = inside();
            if *inside != 0 {
                return None;
            }
            *inside = 1;
        }
        Some(Outermost(()))
    }
}

impl Drop for Outermost {
    fn drop(&mut self) {
        // SAFETY: the thread's own word.
        unsafe { *inside() = 0 };
    }
}
