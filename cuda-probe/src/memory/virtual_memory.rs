//! Physical memory, made by itself and mapped into ranges of addresses: a handle counts its
//! references, and the memory stays until the last one is released and the last range unmapped.

use core::ffi::{c_int, c_ulonglong, c_void};

use memtrace_wire::device::{DeviceRecord, Memory, NO_DEVICE};
use memtrace_wire::event::Kind;

use crate::driver::errno::keeping_errno;
use crate::driver::query::ordinal;
use crate::driver::{SUCCESS, Status, query};
use crate::probe::{acquired, releasing, report};

/// `CUmemLocation`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    kind: c_int,
    id: c_int,
}

impl Location {
    /// The device that it names.
    pub fn device(self) -> u32 {
        const DEVICE: c_int = 1;
        if self.kind == DEVICE { ordinal(self.id) } else { NO_DEVICE }
    }
}

/// `CUmemAllocationProp`
#[repr(C)]
pub struct Properties {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    metadata: *const c_void,
    flags: [u8; 8],
}

const _: () = assert!(size_of::<Properties>() == 32);

/// `cuMemCreate`
pub unsafe fn create(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    bytes: usize,
    properties: *const Properties,
    _flags: c_ulonglong,
) -> Status {
    let status = call();
    if status == SUCCESS {
        // SAFETY: the call has read the one and written the other.
        let (handle, device) = unsafe { (*out, (*properties).location.device()) };
        referred(Memory::Physical, handle, bytes as u64, device);
    }
    status
}

/// `cuMemRetainAllocationHandle`
pub unsafe fn retain(call: impl FnOnce() -> Status, out: *mut u64, _address: *const c_void) -> Status {
    // SAFETY: as the caller promises.
    unsafe { refer(Memory::Physical, call, out) }
}

/// `cuMemImportFromShareableHandle`
pub unsafe fn import(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    _handle: *const c_void,
    _kind: c_int,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { refer(Memory::ImportedPhysical, call, out) }
}

/// `cuMemRelease`
pub unsafe fn release(call: impl FnOnce() -> Status, handle: u64) -> Status {
    releasing(Memory::Physical, 0, handle, call)
}

/// `cuMemMap`
pub unsafe fn map(
    call: impl FnOnce() -> Status,
    address: u64,
    bytes: usize,
    offset: usize,
    handle: u64,
    _flags: c_ulonglong,
) -> Status {
    let status = call();
    if status == SUCCESS {
        let record = DeviceRecord {
            memory: Memory::Mapped as u32,
            device: device_of(handle),
            owner: handle,
            bytes: bytes as u64,
            extra: offset as u64,
            ..DeviceRecord::NONE
        };
        acquired(address, &record);
    }
    status
}

/// `cuMemUnmap`. What was mapped there can be allocated again only after
/// its handle is released, too.
pub unsafe fn unmap(call: impl FnOnce() -> Status, address: u64, bytes: usize) -> Status {
    let status = call();
    if status == SUCCESS {
        report(Kind::DeviceUnmap, address, &DeviceRecord { bytes: bytes as u64, ..DeviceRecord::NONE });
    }
    status
}

/// One more reference to memory whose size the driver does not say.
#[inline(always)]
unsafe fn refer(memory: Memory, call: impl FnOnce() -> Status, out: *mut u64) -> Status {
    let status = call();
    if status == SUCCESS {
        // SAFETY: the call has stored the handle there.
        let handle = unsafe { *out };
        referred(memory, handle, 0, device_of(handle));
    }
    status
}

#[inline(always)]
fn referred(memory: Memory, handle: u64, bytes: u64, device: u32) {
    let memory = memory as u32;
    acquired(0, &DeviceRecord { memory, device, owner: handle, bytes, ..DeviceRecord::NONE });
}

/// Where physical memory lies.
fn device_of(handle: u64) -> u32 {
    let mut properties = Properties {
        kind: 0,
        handle_types: 0,
        location: Location { kind: 0, id: 0 },
        metadata: core::ptr::null(),
        flags: [0; 8],
    };
    // SAFETY: a place for the answer.
    keeping_errno(|| unsafe { query::physical_properties((&raw mut properties).cast(), handle) });
    properties.location.device()
}
