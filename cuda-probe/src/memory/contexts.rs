//! The ends of contexts: all of their memory ends with them.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicU64, Ordering};

use memtrace_wire::device::{DeviceRecord, NO_DEVICE};
use memtrace_wire::event::Kind;

use super::pools;
use crate::driver::errno::keeping_errno;
use crate::driver::query::ordinal;
use crate::driver::{SUCCESS, Status, query};
use crate::probe::report;

/// The primary contexts that the program was given, by device. The driver would return one that is
/// about to end, too, but it would create it anew if another thread has just ended it.
static PRIMARY: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// `cuDevicePrimaryCtxRetain`
pub unsafe fn retain_primary(call: impl FnOnce() -> Status, out: *mut u64, device: c_int) -> Status {
    let status = call();
    if status == SUCCESS
        && let Some(primary) = PRIMARY.get(device as usize)
    {
        // SAFETY: the call has stored the context there.
        primary.store(unsafe { *out }, Ordering::Relaxed);
    }
    status
}

/// `cuDevicePrimaryCtxRelease`: the last one destroys it.
pub unsafe fn release_primary(call: impl FnOnce() -> Status, device: c_int) -> Status {
    let status = call();
    if status == SUCCESS && !is_primary_active(device) {
        end_primary(device);
    }
    status
}

/// `cuDevicePrimaryCtxReset`
pub unsafe fn reset_primary(call: impl FnOnce() -> Status, device: c_int) -> Status {
    let status = call();
    if status == SUCCESS {
        end_primary(device);
    }
    status
}

/// `cuCtxDestroy`
pub unsafe fn destroy(call: impl FnOnce() -> Status, context: u64) -> Status {
    let status = call();
    if status == SUCCESS {
        end(context, NO_DEVICE);
    }
    status
}

/// `cuCtxSynchronize`
pub unsafe fn synchronize(call: impl FnOnce() -> Status) -> Status {
    pools::waited(call())
}

/// The same of a context, since CUDA 13
pub unsafe fn synchronize_context(call: impl FnOnce() -> Status, _context: u64) -> Status {
    pools::waited(call())
}

/// `cuStreamSynchronize`, `cuEventSynchronize`
pub unsafe fn synchronize_with(call: impl FnOnce() -> Status, _what: u64) -> Status {
    pools::waited(call())
}

fn is_primary_active(device: c_int) -> bool {
    let (mut flags, mut active): (c_uint, c_int) = (0, 1);
    // SAFETY: places for the answers.
    keeping_errno(|| unsafe { query::primary_state(device, &mut flags, &mut active) });
    active != 0
}

fn end_primary(device: c_int) {
    let context = PRIMARY.get(device as usize).map_or(0, |primary| primary.load(Ordering::Relaxed));
    if context != 0 {
        end(context, ordinal(device));
    }
}

fn end(context: u64, device: u32) {
    report(Kind::DeviceEnd, 0, &DeviceRecord { context, device, ..DeviceRecord::NONE });
}
