//! The driver's own look-up, `cuGetProcAddress`: what it answers instead of the driver's functions.

use core::ffi::{CStr, c_int, c_ulonglong, c_void};

use super::call::{self, Call};
use crate::driver::errno::keeping_errno;

/// Our function in place of the driver's, which was chosen by name, version and
/// the kind of default stream.
pub fn instead(
    calls: &'static [Call],
    symbol: &CStr,
    theirs: *mut c_void,
    version: c_int,
    flags: c_ulonglong,
) -> *mut c_void {
    /// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
    const PER_THREAD: c_ulonglong = 2;
    /// The newest version whose functions are known. A function requested for a later one may have
    /// other arguments.
    const NEWEST: c_int = 13_999;
    let chosen = call::of_version(calls, symbol, version, flags & PER_THREAD != 0);
    let Some(call) = chosen.filter(|_| !theirs.is_null()) else { return theirs };
    keeping_errno(|| {
        if theirs == call.own || version > NEWEST && theirs != call.function.find() {
            return theirs;
        }
        call.function.learn(theirs);
        call.own
    })
}
