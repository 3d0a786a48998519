//! Constraints: `no_std`; never allocates; takes no lock; never panics, aborts or prints; leaves `errno` as it was; in
//! doubt it degrades. A program that calls no CUDA pays a comparison of two letters for every `dlsym`.
//!
//! The library that memtrace preloads, beside its probe, where there is a CUDA driver. It stands in front of the driver's
//! functions that hand out and take back memory ([`names`] lists them) on every road by which programs come to them: their
//! names, `dlsym` and `cuGetProcAddress` ([`lookup`]). Each call is passed on to the driver ([`driver`]), and what came of it
//! is told to the probe ([`door`]), which writes it into the calling thread's ring. PyTorch's blocks are told too ([`torch`]).
#![no_std]

mod arrays;
mod contexts;
mod door;
mod driver;
mod graphs;
mod linker;
mod lookup;
mod memory;
mod names;
mod nesting;
mod pools;
mod torch;
mod virtual_memory;

/// Nothing here panics (a test looks for it in the symbol table); the compiler wants a handler anyway.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: sched_yield(2) takes nothing and changes nothing.
        unsafe { libc::sched_yield() };
    }
}
