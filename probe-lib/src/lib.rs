//! Constraints: `no_std`; never allocates; takes no lock and makes no system call on the hot path; never
//! panics, aborts or prints; leaves `errno` as it was; in doubt it degrades and counts.
//!
//! The library that memtrace preloads into the program it records (`LD_PRELOAD`). It stands in front of
//! the C library's allocation functions ([`heap`], [`maps`]), passes every call on to the next definition
//! ([`next`]) and writes what happened into a ring that the calling thread owns ([`record`]) in memory
//! shared with the tracer ([`process`] connects, claims rings and notices forks). Blocks come with their call
//! stack ([`stack`], [`unwind`]) if they are large or happen to be sampled ([`sampling`]).
#![no_std]

mod allocator;
mod aside;
mod collect;
mod connect;
mod device;
mod ending;
mod entry;
mod environment;
mod exec;
mod executable;
mod guard;
mod heap;
mod hot;
mod jump;
mod maps;
mod modules;
mod next;
mod openmp;
mod operators;
mod process;
mod python;
mod python_filter;
mod python_frames;
mod python_layout;
mod record;
mod sampling;
mod sandbox;
mod spans;
mod stack;
mod sys;
mod threads;
mod tls;
mod touched;
mod unwind;

/// Nothing here panics (a test looks for it in the symbol table); the compiler wants a handler anyway.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        sys::nanosleep(1_000_000_000);
    }
}
