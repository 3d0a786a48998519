//! Calls that were refused memory: reported with how much they requested and from where, a few of
//! each process. Only a call that has failed comes here.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memtrace_wire::event::{FAILED, Kind};

use super::record;
use super::stack::CallStack;
use crate::connection::process;
use crate::{sandbox, sys};

/// Reported of each process at most.
const MOST: u32 = 4;

static REPORTED: AtomicU32 = AtomicU32::new(0);
/// The process image that these were of.
static IMAGE: AtomicU64 = AtomicU64::new(0);

/// Reports a call that has failed, if errno says that there was no memory for it. Leaves errno as
/// it is.
#[cold]
#[inline(never)]
pub fn report(bytes: usize, stack: impl CallStack) {
    // SAFETY: the calling thread's errno.
    let errno = unsafe { *libc::__errno_location() };
    report_by(errno, bytes, stack);
}

/// The same of a call that returns its error.
#[cold]
#[inline(never)]
pub fn report_by(errno: c_int, bytes: usize, stack: impl CallStack) {
    if errno == libc::ENOMEM && process::is_recorded() && counts() {
        let limit = if sandbox::is_filtered() { usize::MAX } else { sys::address_space_limit() };
        let bytes = bytes.min(FAILED as usize - 1);
        record::acquire(Kind::Refused, 0, bytes, limit as u64, Some(stack));
    }
}

/// True for the first calls of a process.
fn counts() -> bool {
    let image = process::image();
    if IMAGE.swap(image, Ordering::Relaxed) != image {
        REPORTED.store(0, Ordering::Relaxed);
    }
    REPORTED.fetch_add(1, Ordering::Relaxed) < MOST
}
