//! Telling the probe: `memtrace_probe_device_1`, which it exports. Without a probe nothing is told.

use core::arch::asm;
use core::ffi::{c_char, c_int};
use core::mem::transmute;
use core::sync::atomic::{AtomicU64, Ordering};

use memtrace_wire::device::{DeviceRecord, Memory, NAME_MAX, NO_DEVICE};
use memtrace_wire::event::Kind;

use crate::driver::{self, SUCCESS, Status};

/// The probe's function: kind, address, what is told, and a name.
type Door = unsafe extern "C" fn(u32, u64, *const DeviceRecord, *const c_char, usize) -> c_int;

/// A weak reference, settled by the dynamic linker before anything here runs: nothing has to be looked up.
fn door() -> Option<Door> {
    let address: usize;
    // SAFETY: reads a word of the GOT, which is 0 if there is no such function.
    unsafe {
        asm!(
            ".weak memtrace_probe_device_1",
            "mov {}, qword ptr [rip + memtrace_probe_device_1@GOTPCREL]",
            out(reg) address,
            options(pure, readonly, nostack, preserves_flags),
        );
        transmute::<usize, Option<Door>>(address)
    }
}

/// True if there is a probe to tell.
pub fn is_there() -> bool {
    door().is_some()
}

/// Lets the probe of a program find this library, to keep it in the environment of what the program executes.
#[unsafe(no_mangle)]
pub extern "C" fn memtrace_cuda_probe() {}

/// Does what is not the program's: `errno` stays as it is.
#[inline(always)]
pub fn aside<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the calling thread's errno.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let result = work();
        *errno = before;
        result
    }
}

/// Tells what happened. Inlined, as all that leads here: then the innermost frame of a call stack is the driver's own name.
#[inline(always)]
pub fn tell(kind: Kind, address: u64, record: &DeviceRecord) {
    aside(|| {
        let Some(door) = door() else { return };
        introduce(door, record.device);
        // SAFETY: the probe's function; it has no name to read.
        unsafe { door(kind as u32, address, record, core::ptr::null(), 0) };
    });
}

/// Tells that memory was acquired.
#[inline(always)]
pub fn acquired(address: u64, record: &DeviceRecord) {
    tell(Kind::DeviceAcquire, address, record);
}

/// Tells that a block is about to be released, and, if the call fails, that it was not.
#[inline(always)]
pub fn releasing(memory: Memory, address: u64, owner: u64, call: impl FnOnce() -> Status) -> Status {
    let record = DeviceRecord { memory: memory as u32, owner, ..DeviceRecord::NONE };
    tell(Kind::DeviceRelease, address, &record);
    let status = call();
    if status != SUCCESS {
        tell(Kind::DeviceKept, address, &record);
    }
    status
}

/// The device and the context that the calling thread uses.
pub fn current() -> (u32, u64) {
    let (mut device, mut context) = (-1, 0);
    // SAFETY: two places for the answers.
    let known = aside(|| unsafe {
        driver::current_context(&mut context) == SUCCESS && driver::current_device(&mut device) == SUCCESS
    });
    if known { (ordinal(device), context) } else { (NO_DEVICE, 0) }
}

/// The driver says -1 of memory that is on no device.
pub fn ordinal(device: c_int) -> u32 {
    u32::try_from(device).unwrap_or(NO_DEVICE)
}

/// Tells of a device before the first that is told of its memory.
fn introduce(door: Door, device: u32) {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let Some(bit) = 1u64.checked_shl(device) else { return };
    if KNOWN.load(Ordering::Relaxed) & bit != 0 {
        return;
    }
    let mut name = [0u8; NAME_MAX];
    let mut bytes = 0;
    // SAFETY: places for the answers, the name's as long as said.
    let answers = unsafe {
        let total = driver::total_bytes(&mut bytes, device as c_int);
        [total, driver::device_name(name.as_mut_ptr().cast(), NAME_MAX as c_int, device as c_int)]
    };
    // A driver that is not there yet may be later.
    if answers != [SUCCESS; 2] || KNOWN.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return;
    }
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX);
    let record = DeviceRecord { device, bytes: bytes as u64, ..DeviceRecord::NONE };
    // SAFETY: the probe's function; the name has so many bytes.
    unsafe { door(Kind::DeviceFound as u32, u64::from(device), &record, name.as_ptr().cast(), length) };
}
