//! Reports to the probe, by `memtrace_probe_device_1`, which it exports. Without a
//! probe nothing is reported.

use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicU64, Ordering};

use memtrace_wire::device::{DeviceRecord, Memory, NAME_MAX};
use memtrace_wire::event::Kind;

use crate::arch::symbols::weak;
use crate::driver::errno::keeping_errno;
use crate::driver::{SUCCESS, Status, query};

/// The probe's function: kind, address, record, and a name.
type Report = unsafe extern "C" fn(u32, u64, *const DeviceRecord, *const c_char, usize) -> c_int;

/// A weak reference, settled by the dynamic linker before anything here runs:
/// nothing has to be looked up.
fn probe() -> Option<Report> {
    let function = weak!("memtrace_probe_device_1");
    // SAFETY: null, or that function.
    unsafe { transmute::<*const c_void, Option<Report>>(function) }
}

/// True if there is a probe.
pub fn is_there() -> bool {
    probe().is_some()
}

/// The probe finds this library by this symbol, to keep it in the environment of
/// what the program executes.
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_cuda_probe() {}

/// Reports an event. Inlined, as are its callers: then the innermost frame of a call stack has the
/// driver's own name.
#[inline(always)]
pub fn report(kind: Kind, address: u64, record: &DeviceRecord) {
    keeping_errno(|| {
        let Some(send) = probe() else { return };
        introduce(send, record.device);
        // SAFETY: the probe's function; it has no name to read.
        unsafe { send(kind as u32, address, record, core::ptr::null(), 0) };
    });
}

/// Reports that memory was acquired.
#[inline(always)]
pub fn acquired(address: u64, record: &DeviceRecord) {
    report(Kind::DeviceAcquire, address, record);
}

/// Reports that a block is about to be released, and, if the call fails, that it was not.
#[inline(always)]
pub fn releasing(memory: Memory, address: u64, owner: u64, call: impl FnOnce() -> Status) -> Status {
    let record = DeviceRecord { memory: memory as u32, owner, ..DeviceRecord::NONE };
    report(Kind::DeviceRelease, address, &record);
    let status = call();
    if status != SUCCESS {
        report(Kind::DeviceReleaseFailed, address, &record);
    }
    status
}

/// Reports a device before the first event about its memory.
fn introduce(send: Report, device: u32) {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let Some(bit) = 1u64.checked_shl(device) else { return };
    if KNOWN.load(Ordering::Relaxed) & bit != 0 {
        return;
    }
    let mut name = [0u8; NAME_MAX];
    let mut bytes = 0;
    // SAFETY: places for the answers, the name's as long as said.
    let answers = unsafe {
        let total = query::total_bytes(&mut bytes, device as c_int);
        [total, query::device_name(name.as_mut_ptr().cast(), NAME_MAX as c_int, device as c_int)]
    };
    // A driver that is not there yet may be later.
    if answers != [SUCCESS; 2] || KNOWN.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return;
    }
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX);
    let record = DeviceRecord { device, bytes: bytes as u64, ..DeviceRecord::NONE };
    // SAFETY: the probe's function; the name has this many bytes.
    unsafe { send(Kind::DeviceFound as u32, u64::from(device), &record, name.as_ptr().cast(), length) };
}
