//! System calls without the C library's wrappers: `errno` stays untouched, and no interposed `mmap`
//! or `close` (ours included) is entered.

use memtrace_wire::arch::page;

pub use crate::arch::system_call::syscall;

/// Bytes of a page.
#[inline(always)]
pub fn page() -> usize {
    page::bytes() as usize
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

/// Closes all from the first to the last; false before Linux 5.9, and where a sandbox refuses it.
pub fn close_range(first: i32, last: i32) -> bool {
    plain(libc::SYS_close_range, first as usize, last as usize) == 0
}

/// Sleeps; a signal may end it early.
pub fn nanosleep(nanoseconds: u64) {
    let request = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    // SAFETY: `request` is a valid timespec; no remainder is requested.
    unsafe { syscall(libc::SYS_nanosleep, [request.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// `CLOCK_MONOTONIC` in nanoseconds. A real system call: only for slow paths and for machines whose
/// counter is not steady.
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

/// Sleeps until the futex `word` is no longer `value`, the tracer or another thread wakes it, or
/// the time is over.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32, nanoseconds: u64) {
    let most = [(nanoseconds / 1_000_000_000) as usize, (nanoseconds % 1_000_000_000) as usize];
    let wait = libc::FUTEX_WAIT as usize;
    // SAFETY: a shared futex, because the waker may be another process; the
    // timeout lives on the stack.
    unsafe {
        let arguments = [word.as_ptr() as usize, wait, value as usize, most.as_ptr() as usize, 0, 0];
        syscall(libc::SYS_futex, arguments);
    }
}

/// True while the process has a thread with this id (tgkill(2) with signal 0 only checks).
pub fn has_thread(tid: u32) -> bool {
    plain(libc::SYS_tgkill, getpid() as usize, tid as usize) != -(libc::ESRCH as isize)
}

/// Wakes the thread that sleeps on the futex `word`.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: a shared (not private) futex, because the waiter is another process.
    unsafe {
        syscall(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAKE as usize, 1, 0, 0, 0]);
    }
}

/// True if the thread runs on its alternate signal stack now (sigaltstack(2)).
pub fn on_signal_stack() -> bool {
    // SAFETY: all zeroes is a valid stack_t; only reads.
    unsafe {
        let mut now: libc::stack_t = core::mem::zeroed();
        syscall(libc::SYS_sigaltstack, [0, (&raw mut now) as usize, 0, 0, 0, 0]);
        now.ss_flags & libc::SS_ONSTACK != 0
    }
}

/// Reads a word of the process's own memory that may not be there; the error is an errno.
pub fn read_own_memory(address: usize, word: &mut u64) -> Result<(), i32> {
    let local = libc::iovec { iov_base: (&raw mut *word).cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: 8 };
    // SAFETY: process_vm_readv(2) checks the remote side; the local one is `word`.
    let read = unsafe {
        syscall(
            libc::SYS_process_vm_readv,
            [getpid() as usize, (&raw const local) as usize, 1, (&raw const remote) as usize, 1, 0],
        )
    };
    match read {
        8 => Ok(()),
        // Of qemu, which tests use for aarch64: elsewhere an error is better than a read that may fault.
        NO_CALL if cfg!(target_arch = "aarch64") && is_there(address) => {
            // SAFETY: it was there a moment ago; another thread that unmaps it meanwhile is a risk that
            // only programs under emulation take.
            *word = unsafe { (address as *const u64).read_unaligned() };
            Ok(())
        }
        NO_CALL => Err(libc::EFAULT),
        error => Err(-error as i32),
    }
}

/// The kernel has no process_vm_readv(2) (CONFIG_CROSS_MEMORY_ATTACH), or qemu takes its place.
pub const NO_CALL: isize = -(libc::ENOSYS as isize);

/// True if eight bytes at an address can be read: rt_sigprocmask(2) reads them, and then refuses
/// what it is to do with them.
pub fn is_there(address: usize) -> bool {
    const NOTHING: usize = i32::MAX as usize;
    // SAFETY: the kernel checks the address, and changes nothing.
    unsafe { syscall(libc::SYS_rt_sigprocmask, [NOTHING, address, 0, 8, 0, 0]) == -(libc::EINVAL as isize) }
}

/// The thread's robust list as the kernel knows it, 0 if it knows none (get_robust_list(2)).
pub fn robust_list() -> usize {
    let (mut head, mut length) = (0usize, 0usize);
    // SAFETY: both are places for a word; 0 is the calling thread.
    unsafe {
        syscall(
            libc::SYS_get_robust_list,
            [0, (&raw mut head) as usize, (&raw mut length) as usize, 0, 0, 0],
        );
    }
    head
}

/// Sets the thread's robust list.
pub fn set_robust_list(head: usize) {
    /// `struct robust_list_head`: a pointer, an offset, a pointer.
    const BYTES: usize = 24;
    plain(libc::SYS_set_robust_list, head, BYTES);
}

/// Bytes of address space the process may use (RLIMIT_AS).
pub fn address_space_limit() -> usize {
    let mut limit = [usize::MAX; 2];
    // SAFETY: `limit` is a valid rlimit; 0 is the calling process.
    unsafe {
        syscall(libc::SYS_prlimit64, [0, libc::RLIMIT_AS as usize, 0, limit.as_mut_ptr() as usize, 0, 0]);
    }
    limit[0]
}

/// True if the file can be read.
pub fn is_readable(path: &core::ffi::CStr) -> bool {
    let directory = libc::AT_FDCWD as usize;
    // SAFETY: a C string.
    unsafe {
        syscall(libc::SYS_faccessat, [directory, path.as_ptr() as usize, libc::R_OK as usize, 0, 0, 0]) == 0
    }
}

/// Opens a file to read and passes its descriptor to `work`; `None` if it cannot be opened.
///
/// # Safety
/// `path` is a C string, or null, which the kernel refuses.
pub unsafe fn with_file<R>(path: *const core::ffi::c_char, work: impl FnOnce(usize) -> R) -> Option<R> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let (directory, path) = (libc::AT_FDCWD as usize, path as usize);
    // SAFETY: as the caller promises.
    let file = unsafe { syscall(libc::SYS_openat, [directory, path, flags as usize, 0, 0, 0]) };
    if file < 0 {
        return None;
    }
    let result = work(file as usize);
    close(file as i32);
    Some(result)
}

/// Writes to a file that is there; false if it cannot be written.
pub fn write_file(path: &core::ffi::CStr, text: &[u8]) -> bool {
    let flags = libc::O_WRONLY | libc::O_CLOEXEC;
    let (directory, path) = (libc::AT_FDCWD as usize, path.as_ptr() as usize);
    // SAFETY: a C string.
    let file = unsafe { syscall(libc::SYS_openat, [directory, path, flags as usize, 0, 0, 0]) };
    if file < 0 {
        return false;
    }
    let arguments = [file as usize, text.as_ptr() as usize, text.len(), 0, 0, 0];
    // SAFETY: reads the text only.
    let written = unsafe { syscall(libc::SYS_write, arguments) };
    close(file as i32);
    written == text.len() as isize
}

/// Reads from a descriptor; the number of bytes, 0 on failure.
pub fn read(file: usize, buffer: &mut [u8]) -> usize {
    // SAFETY: writes into the buffer only.
    let read =
        unsafe { syscall(libc::SYS_read, [file, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) };
    read.max(0) as usize
}

/// The same from an offset of the file on.
pub fn read_at(file: usize, buffer: &mut [u8], offset: usize) -> usize {
    // SAFETY: writes into the buffer only.
    let read = unsafe {
        syscall(libc::SYS_pread64, [file, buffer.as_mut_ptr() as usize, buffer.len(), offset, 0, 0])
    };
    read.max(0) as usize
}

/// Largest resident size so far (VmHWM of proc_pid_status(5)), 0 if /proc does not say.
pub fn largest_resident_bytes() -> usize {
    let mut text = [0u8; 4096];
    let path = c"/proc/self/status".as_ptr();
    // SAFETY: a C string.
    let read = unsafe { with_file(path, |file| read(file, &mut text)) }.unwrap_or(0);
    let lines = text.get(..read).unwrap_or(&[]).split(|byte| *byte == b'\n');
    let line = lines.filter_map(|line| line.strip_prefix(b"VmHWM:")).next().unwrap_or(&[]);
    let digits = line.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0usize, |kib, digit| kib.wrapping_mul(10).wrapping_add(usize::from(digit - b'0'))) * 1024
}

/// Blocks every signal for the calling thread but those that report its own faults; returns what
/// was blocked before (rt_sigprocmask(2)).
pub fn block_signals() -> u64 {
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
    change_signal_mask(
        libc::SIG_BLOCK,
        faults.iter().fold(u64::MAX, |set, signal| set & !(1 << (signal - 1))),
    )
}

/// Blocks these signals and no others.
pub fn set_signal_mask(mask: u64) {
    change_signal_mask(libc::SIG_SETMASK, mask);
}

fn change_signal_mask(how: i32, mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: both are kernel signal sets of eight bytes.
    unsafe {
        let (new, old) = ((&raw const mask) as usize, (&raw mut before) as usize);
        syscall(libc::SYS_rt_sigprocmask, [how as usize, new, old, 8, 0, 0]);
    }
    before
}

/// True if a filter decides which system calls the process may make (seccomp(2)).
pub fn has_filter() -> bool {
    const FILTER: isize = 2;
    plain(libc::SYS_prctl, libc::PR_GET_SECCOMP as usize, 0) == FILTER
}

/// Zeroed memory from the kernel.
pub fn map_memory(bytes: usize) -> Option<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: a new mapping.
    let memory = unsafe { syscall(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    (memory > 0).then_some(memory as *mut u8)
}

/// Returns it to the kernel.
pub fn unmap_memory(memory: *mut u8, bytes: usize) {
    plain(libc::SYS_munmap, memory as usize, bytes);
}
