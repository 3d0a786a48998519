//! Memory that a context owns: on a device, managed, or the host's made fast to reach. And that of
//! other processes (IPC).

use core::ffi::{c_int, c_uint, c_void};

use memtrace_wire::device::{DeviceRecord, Memory, NO_DEVICE};

use crate::driver::errno::keeping_errno;
use crate::driver::query::{current, ordinal};
use crate::driver::{SUCCESS, Status, query};
use crate::probe::{acquired, releasing};

/// `CUipcMemHandle`: passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle([u8; 64]);

/// Reports what a call has acquired in the current context: its address and bytes,
/// read once it has succeeded.
#[inline(always)]
fn acquire(memory: Memory, call: impl FnOnce() -> Status, block: impl FnOnce() -> (u64, usize)) -> Status {
    let status = call();
    if status == SUCCESS {
        let (address, bytes) = block();
        let (device, context) = current();
        let device = if matches!(memory, Memory::Host | Memory::Registered) { NO_DEVICE } else { device };
        let record = DeviceRecord {
            memory: memory as u32,
            device,
            context,
            bytes: bytes as u64,
            ..DeviceRecord::NONE
        };
        acquired(address, &record);
    }
    status
}

/// `cuMemAlloc`
pub unsafe fn alloc(call: impl FnOnce() -> Status, out: *mut u64, bytes: usize) -> Status {
    // SAFETY: the call has stored the address there.
    acquire(Memory::Linear, call, || unsafe { (*out, bytes) })
}

/// The same with addresses of 32 bits, before CUDA 3.2.
pub unsafe fn alloc_short(call: impl FnOnce() -> Status, out: *mut u32, bytes: c_uint) -> Status {
    // SAFETY: as above.
    acquire(Memory::Linear, call, || unsafe { (u64::from(*out), bytes as usize) })
}

/// `cuMemAllocPitch`
pub unsafe fn alloc_pitch(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    pitch: *mut usize,
    _width: usize,
    height: usize,
    _element: c_uint,
) -> Status {
    // SAFETY: the call has stored the address and the pitch there.
    acquire(Memory::Pitch, call, || unsafe { (*out, (*pitch).saturating_mul(height)) })
}

/// The same, before CUDA 3.2.
pub unsafe fn alloc_pitch_short(
    call: impl FnOnce() -> Status,
    out: *mut u32,
    pitch: *mut c_uint,
    _width: c_uint,
    height: c_uint,
    _element: c_uint,
) -> Status {
    // SAFETY: as above.
    acquire(Memory::Pitch, call, || unsafe {
        (u64::from(*out), (*pitch as usize).saturating_mul(height as usize))
    })
}

/// `cuMemAllocManaged`
pub unsafe fn alloc_managed(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    bytes: usize,
    _flags: c_uint,
) -> Status {
    // SAFETY: the call has stored the address there.
    acquire(Memory::Managed, call, || unsafe { (*out, bytes) })
}

/// `cuMemAllocHost`
pub unsafe fn alloc_host(call: impl FnOnce() -> Status, out: *mut *mut c_void, bytes: usize) -> Status {
    // SAFETY: the call has stored the address there.
    acquire(Memory::Host, call, || unsafe { (*out as u64, bytes) })
}

/// The same, before CUDA 3.2.
pub unsafe fn alloc_host_short(
    call: impl FnOnce() -> Status,
    out: *mut *mut c_void,
    bytes: c_uint,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { alloc_host(call, out, bytes as usize) }
}

/// `cuMemHostAlloc`
pub unsafe fn host_alloc(
    call: impl FnOnce() -> Status,
    out: *mut *mut c_void,
    bytes: usize,
    _flags: c_uint,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { alloc_host(call, out, bytes) }
}

/// `cuMemHostRegister`
pub unsafe fn register(
    call: impl FnOnce() -> Status,
    block: *mut c_void,
    bytes: usize,
    _flags: c_uint,
) -> Status {
    acquire(Memory::Registered, call, || (block as u64, bytes))
}

/// `cuMemFreeHost`
pub unsafe fn free_host(call: impl FnOnce() -> Status, block: *mut c_void) -> Status {
    release(Memory::Host, call, block as u64)
}

/// `cuMemHostUnregister`
pub unsafe fn unregister(call: impl FnOnce() -> Status, block: *mut c_void) -> Status {
    release(Memory::Registered, call, block as u64)
}

/// `cuIpcOpenMemHandle`: where the other process's block is, and how large, the driver says.
#[inline(always)]
pub unsafe fn open_ipc(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    _handle: IpcHandle,
    _flags: c_uint,
) -> Status {
    let status = call();
    if status == SUCCESS {
        // SAFETY: the call has stored the address there.
        let address = unsafe { *out };
        let (device, context) = (device_of(address), current().1);
        let (memory, bytes) = (Memory::Ipc as u32, bytes_at(address) as u64);
        acquired(address, &DeviceRecord { memory, device, context, bytes, ..DeviceRecord::NONE });
    }
    status
}

/// `cuIpcCloseMemHandle`
pub unsafe fn close_ipc(call: impl FnOnce() -> Status, address: u64) -> Status {
    release(Memory::Ipc, call, address)
}

/// Bytes of the block that begins at an address, 0 if the driver does not say.
pub fn bytes_at(address: u64) -> usize {
    let (mut base, mut bytes) = (0, 0);
    // SAFETY: places for the answers.
    keeping_errno(|| unsafe { query::address_range(&mut base, &mut bytes, address) });
    bytes
}

/// The device that a block lies on; the current one if the driver does not say.
pub fn device_of(address: u64) -> u32 {
    /// CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    const DEVICE_ORDINAL: c_int = 9;
    let mut device: c_int = -1;
    // SAFETY: a place for an ordinal.
    let status = keeping_errno(|| unsafe {
        query::pointer_attribute((&raw mut device).cast(), DEVICE_ORDINAL, address)
    });
    if status == SUCCESS { ordinal(device) } else { current().0 }
}

/// A null pointer may be freed, and nothing happens.
#[inline(always)]
pub fn release(memory: Memory, call: impl FnOnce() -> Status, address: u64) -> Status {
    if address == 0 { call() } else { releasing(memory, address, 0, call) }
}
