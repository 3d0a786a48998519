//! The call stack of a large block, for the tracer to unwind: three registers, the Python frames and a copy of
//! the stack, written before the block's acquire.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

use memtrace_wire::event::Kind;
use memtrace_wire::stack::{MORE_FRAMES, STACK_COPY_MAX, STACK_THRESHOLD, StackHead};

use crate::python_frames::Frames;
use crate::record::{self, event_filled};
use crate::{modules, process, sandbox, sys, tls};

/// The kernel keeps all mappings but the stack this far below the top of the stack
/// (arch/x86/mm/mmap.c: MIN_GAP is 128 MiB and more).
const MAIN_STACK_MAX: usize = 64 << 20;
const PAGE: usize = 4096;

/// Writes the stack of a block of `bytes` bytes that was just acquired at `address`, if it is large.
#[inline(always)]
pub fn of(address: usize, bytes: usize) {
    if bytes >= STACK_THRESHOLD {
        write(address);
    }
}

#[cold]
#[inline(never)]
fn write(address: usize) {
    // A signal handler that interrupted the probe: its blocks wait aside, where there is no room for a stack.
    if !process::is_recorded() || record::is_inside() {
        return;
    }
    let (ip, sp, bp): (u64, usize, u64);
    // SAFETY: copies registers, at one place, so that the unwinding rule of `ip` fits the other two.
    unsafe {
        asm!(
            "lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp",
            out(reg) ip, out(reg) sp, out(reg) bp,
            options(nomem, nostack, preserves_flags)
        )
    };
    modules::announce();
    let frames = Frames::of_this_thread();
    let python_frames = frames.describe();
    let listed = 2 * (python_frames & !MORE_FRAMES) as usize;
    let head = StackHead { ip, sp: sp as u64, bp, python_frames };
    let (room, plain) = bounds(sp);
    let fill = |pieces| if plain { copy(sp, pieces) } else { copy_carefully(sp, pieces) };
    let first = head.words().into_iter().chain(frames.words().take(listed));
    event_filled(Kind::Stack, address as u64, StackHead::WORDS + listed, first, room, fill);
}

/// How much to copy from `sp` on, and whether all of it is surely there.
fn bounds(sp: usize) -> (usize, bool) {
    unsafe extern "C" {
        static __libc_stack_end: usize;
    }
    // SAFETY: ld.so stores the stack pointer at process entry there, before anything else runs.
    let main = unsafe { __libc_stack_end }.wrapping_sub(sp);
    if main < MAIN_STACK_MAX {
        return (main.min(STACK_COPY_MAX), true);
    }
    // glibc puts a thread's control block at the top of its stack (nptl/allocatestack.c). But this may be
    // another stack, of a coroutine or a signal handler, whose end is not known.
    (tls::control_block().wrapping_sub(sp).min(STACK_COPY_MAX), false)
}

fn copy(sp: usize, pieces: [(*mut u8, usize); 2]) -> usize {
    let mut from = sp as *const u8;
    let mut copied = 0;
    for (to, bytes) in pieces {
        // SAFETY: `bounds` saw that the stack reaches that far; the pieces are the ring's.
        unsafe {
            core::ptr::copy_nonoverlapping(from, to, bytes);
            from = from.add(bytes);
        }
        copied += bytes;
    }
    copied
}

/// The same for a stack that may end sooner: the kernel copies page by page and stops where there is none
/// (process_vm_readv(2), which every process may do to itself).
fn copy_carefully(sp: usize, pieces: [(*mut u8, usize); 2]) -> usize {
    const PAGES: usize = STACK_COPY_MAX / PAGE + 1;
    static REFUSED: AtomicBool = AtomicBool::new(false);
    if REFUSED.load(Ordering::Relaxed) || sandbox::is_filtered() {
        return 0;
    }
    let wanted: usize = pieces.iter().map(|(_, bytes)| bytes).sum();
    let local = pieces.map(|(to, bytes)| [to as usize, bytes]);
    let mut remote = [[0usize; 2]; PAGES];
    let mut from = sp;
    for part in &mut remote {
        let until = ((from | (PAGE - 1)) + 1).min(sp + wanted);
        *part = [from, until - from];
        from = until;
    }
    let arguments =
        [sys::getpid() as usize, local.as_ptr() as usize, local.len(), remote.as_ptr() as usize, PAGES, 0];
    // SAFETY: writes only into the pieces, which are the ring's.
    let copied = unsafe { sys::syscall(libc::SYS_process_vm_readv, arguments) };
    if copied == -(libc::EPERM as isize) || copied == -(libc::ENOSYS as isize) {
        REFUSED.store(true, Ordering::Relaxed);
    }
    copied.max(0) as usize
}
