//! The end of the program itself: `main` returns, or `exit` is called. What lives then is not freed
//! yet by what only tidies up, destructors of static objects and functions registered with
//! `atexit`.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use memtrace_wire::event::Kind;

use crate::arch::main::around_main;
use crate::connection::process;
use crate::next::{self, Strings};
use crate::ring::record;
use crate::stack::hidden;

static MAIN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// What a program begins with in the C library: calls `main`, and then `exit` by an internal name.
///
/// # Safety
/// As the C library demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(
    main: *const c_void,
    argc: c_int,
    argv: Strings,
    init: *const c_void,
    fini: *const c_void,
    at_exit: *const c_void,
    stack_end: *const c_void,
) -> c_int {
    MAIN.store(main.cast_mut(), Ordering::Relaxed);
    // SAFETY: the program's call, passed on; `around_main` can be called as `main` is.
    unsafe {
        next::__libc_start_main(around_main as *const c_void, argc, argv, init, fini, at_exit, stack_end)
    }
}

// Its frame is left out of call stacks, which are those of a program that is not recorded.
around_main!(around_main, hidden::FRAME, MAIN, ended);

extern "C" fn ended() {
    // The parent of a vforked child goes on.
    if process::is_recorded() && !process::is_borrowed() {
        record::event(Kind::MainEnded, 0, 0, 0);
    }
}

/// exit(3)
///
/// # Safety
/// As exit(3) demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exit(status: c_int) {
    ended();
    // SAFETY: the program's call, passed on; does not return.
    unsafe { next::exit(status) }
}
