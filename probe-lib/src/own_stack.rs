//! Where the calling thread's stack lies, and how much of it is there.

use crate::arch::thread;
use crate::{sandbox, sys};

/// The kernel keeps all mappings but the stack this far below the top of the stack
/// (arch/x86/mm/mmap.c: MIN_GAP is 128 MiB and more). No other stack is taken to be larger.
const STACK_MAX: usize = 64 << 20;

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
    if main { top_of_main_stack(sp).is_some() } else { thread::control_block().wrapping_sub(sp) < STACK_MAX }
}

/// The end of the stack that `sp` points into, where it is known: of the main thread's, and of a
/// thread's own. The stacks of coroutines and signal handlers end anywhere.
pub fn top_of_stack(sp: usize, lowest: &mut usize) -> Option<usize> {
    if let Some(main) = top_of_main_stack(sp) {
        return Some(main);
    }
    // glibc puts a thread's control block at the top of its stack (nptl/allocatestack.c), and below
    // the stack a page that cannot be read.
    let thread = thread::control_block();
    if thread.wrapping_sub(sp) >= STACK_MAX {
        return None;
    }
    if *lowest == 0 {
        *lowest = thread;
    }
    if sp < *lowest {
        if sys::getpid() == sys::gettid() || !is_readable(sp & !(sys::page() - 1), *lowest) {
            return None;
        }
        *lowest = sp & !(sys::page() - 1);
    }
    Some(thread)
}

/// True if every page between two addresses of the process can be read. False
/// where the kernel does not say.
fn is_readable(from: usize, to: usize) -> bool {
    const AT_ONCE: usize = 16;
    let mut next = from;
    while next < to && !sandbox::is_filtered() {
        let mut bytes = [0u8; AT_ONCE];
        let local = [bytes.as_mut_ptr() as usize, AT_ONCE];
        let pages: [[usize; 2]; AT_ONCE] =
            core::array::from_fn(|page| [(next + page * sys::page()).min(to - 1), 1]);
        let (local, pages) = (local.as_ptr() as usize, pages.as_ptr() as usize);
        let arguments = [sys::getpid() as usize, local, 1, pages, AT_ONCE, 0];
        // SAFETY: process_vm_readv(2) checks the remote side and writes only into `bytes`.
        match unsafe { sys::syscall(libc::SYS_process_vm_readv, arguments) } {
            sys::NO_CALL => return (next..to).step_by(sys::page()).all(sys::is_there),
            read if read == AT_ONCE as isize => {}
            _ => return false,
        }
        next += AT_ONCE * sys::page();
    }
    next >= to
}
