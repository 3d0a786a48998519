//! System calls without the C library's wrappers: `errno` stays untouched and nobody's interposed
//! `mmap` or `close` (ours included) is entered.

use core::arch::asm;

/// x86-64 system call; negative results are `-errno`.
///
/// # Safety
/// As the system call demands.
pub unsafe fn syscall(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the x86-64 system call convention; the caller answers for the call itself.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") arguments[2],
            in("r10") arguments[3], in("r8") arguments[4], in("r9") arguments[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

fn plain(number: libc::c_long, a: usize, b: usize) -> isize {
    // SAFETY: used below only with calls that read or write no memory of ours.
    unsafe { syscall(number, [a, b, 0, 0, 0, 0]) }
}

pub fn getpid() -> u32 {
    plain(libc::SYS_getpid, 0, 0) as u32
}

pub fn getppid() -> u32 {
    plain(libc::SYS_getppid, 0, 0) as u32
}

pub fn gettid() -> u32 {
    plain(libc::SYS_gettid, 0, 0) as u32
}

pub fn sched_yield() {
    plain(libc::SYS_sched_yield, 0, 0);
}

pub fn close(descriptor: i32) {
    plain(libc::SYS_close, descriptor as usize, 0);
}

/// Sleeps; a signal may end it early.
pub fn nanosleep(nanoseconds: u64) {
    let request = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    // SAFETY: `request` is a valid timespec; no remainder is asked for.
    unsafe { syscall(libc::SYS_nanosleep, [request.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// `CLOCK_MONOTONIC` in nanoseconds. A real system call: only for slow paths and for machines whose TSC
/// is not invariant.
pub fn monotonic_ns() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: `time` is a valid timespec.
    unsafe {
        syscall(
            libc::SYS_clock_gettime,
            [libc::CLOCK_MONOTONIC as usize, time.as_mut_ptr() as usize, 0, 0, 0, 0],
        )
    };
    let [seconds, nanoseconds] = time;
    seconds * 1_000_000_000 + nanoseconds
}

/// Sleeps until the futex `word` no longer holds `value`, somebody wakes it, or a second is over.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32) {
    let one_second = [1usize, 0];
    let wait = libc::FUTEX_WAIT as usize;
    // SAFETY: a shared futex, because the waker may be another process; the timeout lives on the stack.
    unsafe {
        let arguments = [word.as_ptr() as usize, wait, value as usize, one_second.as_ptr() as usize, 0, 0];
        syscall(libc::SYS_futex, arguments);
    }
}

/// True while the process has a thread with this id (tgkill(2) with signal 0 only looks).
pub fn has_thread(tid: u32) -> bool {
    plain(libc::SYS_tgkill, getpid() as usize, tid as usize) != -(libc::ESRCH as isize)
}

/// Blocks every signal in the calling thread but those that report its own faults.
pub fn block_signals() {
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
    let set = faults.iter().fold(u64::MAX, |set, signal| set & !(1 << (signal - 1)));
    // SAFETY: the kernel's signal set has 8 bytes; the old one is not asked for.
    unsafe {
        let arguments = [libc::SIG_BLOCK as usize, (&raw const set) as usize, 0, 8, 0, 0];
        syscall(libc::SYS_rt_sigprocmask, arguments);
    }
}

/// Wakes whoever sleeps on the futex `word`.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: a shared (not private) futex, because the waiter is another process.
    unsafe {
        syscall(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAKE as usize, 1, 0, 0, 0]);
    }
}
