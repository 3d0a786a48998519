//! Constraints: `no_std`; never allocates; takes no lock and makes no system call on the hot path;
//! never panics, aborts or prints; leaves `errno` as it was; in doubt it degrades and counts.
//!
//! The library that memtrace preloads into the program it records (`LD_PRELOAD`). It stands in
//! front of the C library's allocation functions ([`intercept`]), passes every call on to the next
//! definition ([`next`]) and writes what happened into a ring that the calling thread owns
//! ([`ring`]), in memory shared with the tracer ([`connection`] connects, claims rings and notices
//! forks). Blocks come with their call stack ([`stack`], [`python`]) if they are large or happen to
//! be sampled ([`ring::sampling`]). Where the tracer has a plan, large blocks get the memory that it
//! names ([`placement`]).
//!
//! Each room knows only those to its right:
//!
//! ```text
//! startup → intercept → placement → stack → python → ring → connection
//!         → next, allocator, tls, own_stack, clock, sandbox, sys → arch
//! ```
//!
//! Two things reach up: the first call of the program, by a symbol ([`next`] → [`startup`]), and
//! what the connection notices of the process, by functions that startup sets
//! ([`connection::hooks`]).
#![no_std]

mod allocator;
mod arch;
mod clock;
mod connection;
mod intercept;
mod next;
mod own_stack;
mod placement;
mod python;
mod ring;
mod sandbox;
mod stack;
mod startup;
mod sys;
mod tls;

// glibc has had these itself since 2.34. Weak, so that a program needs no libdl and no libpthread for
// the probe; scripts/stage makes a copy that brings them along, for what is older.
core::arch::global_asm!(
    ".weak dladdr",
    ".weak dladdr1",
    ".weak dlopen",
    ".weak dlsym",
    ".weak pthread_mutexattr_init",
    ".weak pthread_mutexattr_setpshared",
    ".weak pthread_mutexattr_setrobust",
);

/// Nothing here panics (a test looks for it in the symbol table); the
/// compiler wants a handler anyway.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        sys::nanosleep(1_000_000_000);
    }
}
