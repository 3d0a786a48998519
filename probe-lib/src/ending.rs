//! The process is about to end, by exit or by becoming another program: the last moment to ask how large it is.
//! A process that is killed never comes here; the tracer's last look counts then.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use memtrace_wire::event::{ENDING_EXIT, ENDING_WAITS, Kind};

use crate::record::{self, event};
use crate::{next, process, sandbox, sys, touched};

/// How long the tracer's look is waited for.
const PATIENCE_NS: u64 = 200_000_000;

/// _exit(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) {
    tell(ENDING_EXIT);
    // SAFETY: the program's call, passed on; does not return.
    unsafe { next::_exit(status) }
}

/// _Exit(3), the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) {
    // SAFETY: as above.
    unsafe { _exit(status) }
}

/// quick_exit(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quick_exit(status: c_int) {
    tell(ENDING_EXIT);
    // SAFETY: the program's call, passed on; does not return.
    unsafe { next::quick_exit(status) }
}

/// Runs when `exit` does, after the program's own handlers: the probe was loaded before all other libraries.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = {
    extern "C" fn at_exit() {
        tell(ENDING_EXIT);
    }
    at_exit
};

/// Says hello before the program begins, so that one that never allocates is known too.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        // An interpreter is among what is looked for, and connecting asks for it.
        next::find_now();
        record::begin();
    }
    at_start
};

/// Records the end, with the largest resident size so far; waits for the tracer to look at the mappings if
/// there are any whose touched part it cannot know.
pub fn tell(why: u64) {
    // The parent of a vforked child goes on.
    if !process::is_recorded() || process::is_borrowed() {
        return;
    }
    record::begin();
    let Some(slot) = record::slot() else { return };
    let look = touched::is_unknown();
    slot.look.store(u32::from(look), Ordering::Relaxed);
    let resident = if sandbox::is_filtered() { 0 } else { sys::largest_resident_bytes() };
    let waits = if look { ENDING_WAITS } else { 0 };
    event(Kind::Ending, (why | waits) as usize, resident, 0);
    if !look {
        return;
    }
    process::wake_tracer();
    let start = sys::monotonic_ns();
    while slot.look.load(Ordering::Acquire) != 0
        && process::is_recorded()
        && sys::monotonic_ns() - start < PATIENCE_NS
    {
        sys::nanosleep(20_000);
    }
}
