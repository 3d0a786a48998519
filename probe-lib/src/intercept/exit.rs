//! The process is about to end, by exit or by executing another program: the last
//! moment to measure how large it is. A process that is killed never comes here; the
//! tracer's last sample counts then.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use memtrace_wire::event::{ENDING_EXIT, ENDING_WAITS, Kind};

use super::touched;
use crate::connection::process;
use crate::ring::record::{self, event};
use crate::{next, placement, sandbox, sys};

/// How long to wait for the tracer's sample.
const WAIT_NS: u64 = 200_000_000;

/// _exit(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) {
    report(ENDING_EXIT);
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
    report(ENDING_EXIT);
    // SAFETY: the program's call, passed on; does not return.
    unsafe { next::quick_exit(status) }
}

/// Runs when `exit` does, after the program's own handlers: the probe was loaded
/// before all other libraries.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = {
    extern "C" fn at_exit() {
        report(ENDING_EXIT);
    }
    at_exit
};

/// Records the end, with the largest resident size so far; waits for the tracer to sample the
/// mappings if there are any whose touched part it cannot know.
pub fn report(why: u64) {
    // The parent of a vforked child goes on.
    if !process::is_recorded() || process::is_borrowed() {
        return;
    }
    record::begin();
    placement::end();
    let Some(slot) = record::slot() else { return };
    let waits = touched::is_unknown();
    slot.awaits_sample.store(u32::from(waits), Ordering::Relaxed);
    let resident = if sandbox::is_filtered() { 0 } else { sys::largest_resident_bytes() };
    let flag = if waits { ENDING_WAITS } else { 0 };
    event(Kind::Ending, (why | flag) as usize, resident, 0);
    if !waits {
        return;
    }
    process::wake_tracer();
    let start = sys::monotonic_ns();
    while slot.awaits_sample.load(Ordering::Acquire) != 0
        && process::is_recorded()
        && sys::monotonic_ns() - start < WAIT_NS
    {
        sys::nanosleep(20_000);
    }
}
