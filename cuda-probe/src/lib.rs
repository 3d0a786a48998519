//! Constraints: `no_std`; never allocates; takes no lock; never panics, aborts or prints; leaves
//! `errno` as it was; in doubt it degrades. A program that calls no CUDA pays a comparison of two
//! letters for every `dlsym`.
//!
//! The library that memtrace preloads, in addition to its probe, where there is a CUDA driver. It
//! stands in front of the driver's functions that allocate and free memory, however programs come
//! to them: by their names, `dlsym` and `cuGetProcAddress` ([`intercept`]). Each call is passed on
//! to the driver ([`driver`]); what came of it ([`memory`]) is reported to the probe ([`probe`]),
//! which writes it into the calling thread's ring. PyTorch's blocks are reported too.
//!
//! Each room knows only those below it: `intercept` → `memory` → `probe` → `driver` → `arch`.
#![no_std]

mod arch;
mod driver;
mod intercept;
mod memory;
mod probe;

// As in probe-lib: glibc has had these itself since 2.34, and a copy brings along what is older.
core::arch::global_asm!(".weak dladdr", ".weak dlerror", ".weak dlopen", ".weak dlvsym");

/// Nothing here panics (a test looks for it in the symbol table); the
/// compiler wants a handler anyway.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: sched_yield(2) takes nothing and changes nothing.
        unsafe { libc::sched_yield() };
    }
}
