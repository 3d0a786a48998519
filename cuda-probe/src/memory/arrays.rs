//! Arrays for textures, whose layout the driver keeps to itself: their
//! bytes are those of their cells.

use core::ffi::c_uint;

use memtrace_wire::device::{DeviceRecord, Memory};

use super::linear;
use crate::driver::query::current;
use crate::driver::{SUCCESS, Status};
use crate::probe::acquired;

/// `CUDA_ARRAY_DESCRIPTOR`
#[repr(C)]
pub struct Flat {
    width: usize,
    height: usize,
    format: u32,
    channels: c_uint,
}

/// The same before CUDA 3.2.
#[repr(C)]
pub struct FlatShort {
    width: c_uint,
    height: c_uint,
    format: u32,
    channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[repr(C)]
pub struct Deep {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    channels: c_uint,
    flags: c_uint,
}

/// The same before CUDA 3.2.
#[repr(C)]
pub struct DeepShort {
    width: c_uint,
    height: c_uint,
    depth: c_uint,
    format: u32,
    channels: c_uint,
    flags: c_uint,
}

const _: () = assert!(size_of::<Flat>() == 24 && size_of::<Deep>() == 40);

/// CUDA_ARRAY3D_LAYERED: the depth counts layers.
const LAYERED: c_uint = 0x01;
/// CUDA_ARRAY3D_CUBEMAP: it counts faces.
const CUBEMAP: c_uint = 0x04;
/// CUDA_ARRAY3D_SPARSE and CUDA_ARRAY3D_DEFERRED_MAPPING: the program brings the memory later.
const WITHOUT_MEMORY: c_uint = 0x40 | 0x80;

/// `cuArrayCreate`
pub unsafe fn create(call: impl FnOnce() -> Status, out: *mut u64, array: *const Flat) -> Status {
    // SAFETY: the call has read the description.
    acquire(Memory::Array, call, out, || unsafe {
        let Flat { width, height, format, channels } = array.read();
        Deep { width, height, depth: 0, format, channels, flags: 0 }.bytes(1)
    })
}

/// The same before CUDA 3.2.
pub unsafe fn create_short(call: impl FnOnce() -> Status, out: *mut u64, array: *const FlatShort) -> Status {
    // SAFETY: as above.
    acquire(Memory::Array, call, out, || unsafe {
        let FlatShort { width, height, format, channels } = array.read();
        let (width, height) = (width as usize, height as usize);
        Deep { width, height, depth: 0, format, channels, flags: 0 }.bytes(1)
    })
}

/// `cuArray3DCreate`
pub unsafe fn create_deep(call: impl FnOnce() -> Status, out: *mut u64, array: *const Deep) -> Status {
    // SAFETY: as above.
    acquire(Memory::Array, call, out, || unsafe { (*array).bytes(1) })
}

/// The same before CUDA 3.2.
pub unsafe fn create_deep_short(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    array: *const DeepShort,
) -> Status {
    // SAFETY: as above.
    acquire(Memory::Array, call, out, || unsafe {
        let DeepShort { width, height, depth, format, channels, flags } = array.read();
        let (width, height, depth) = (width as usize, height as usize, depth as usize);
        Deep { width, height, depth, format, channels, flags }.bytes(1)
    })
}

/// `cuMipmappedArrayCreate`
pub unsafe fn create_levels(
    call: impl FnOnce() -> Status,
    out: *mut u64,
    array: *const Deep,
    levels: c_uint,
) -> Status {
    // SAFETY: as above.
    acquire(Memory::Mipmap, call, out, || unsafe { (*array).bytes(levels) })
}

/// `cuArrayDestroy`
pub unsafe fn destroy(call: impl FnOnce() -> Status, array: u64) -> Status {
    linear::release(Memory::Array, call, array)
}

/// `cuMipmappedArrayDestroy`
pub unsafe fn destroy_levels(call: impl FnOnce() -> Status, array: u64) -> Status {
    linear::release(Memory::Mipmap, call, array)
}

#[inline(always)]
fn acquire(
    memory: Memory,
    call: impl FnOnce() -> Status,
    out: *mut u64,
    bytes: impl FnOnce() -> usize,
) -> Status {
    let status = call();
    if status == SUCCESS {
        let (device, context) = current();
        let (memory, bytes) = (memory as u32, bytes() as u64);
        // SAFETY: the call has stored the handle there.
        let handle = unsafe { *out };
        acquired(handle, &DeviceRecord { memory, device, context, bytes, ..DeviceRecord::NONE });
    }
    status
}

impl Deep {
    /// Bytes of its cells at this many levels, each half as wide, high and deep as the one before.
    fn bytes(&self, levels: c_uint) -> usize {
        if self.flags & WITHOUT_MEMORY != 0 {
            return 0;
        }
        let halved = self.flags & (LAYERED | CUBEMAP) == 0;
        let deepest = if halved { self.depth } else { 1 };
        let most = usize::BITS - self.width.max(self.height).max(deepest).leading_zeros();
        let level = |level: u32| {
            let side = |length: usize| (length >> level).max(1);
            let depth = if halved { side(self.depth) } else { self.depth.max(1) };
            self.plane_bytes(side(self.width), side(self.height)).saturating_mul(depth)
        };
        (0..levels.min(most).max(1)).map(level).fold(0, usize::saturating_add)
    }

    /// Bytes of one layer.
    fn plane_bytes(&self, width: usize, height: usize) -> usize {
        let cells = width.saturating_mul(height);
        let channels = self.channels as usize;
        match self.format {
            // 8, 16 and 32 bits, signed and not; half and single precision.
            0x01 | 0x08 => cells.saturating_mul(channels),
            0x02 | 0x09 | 0x10 => cells.saturating_mul(channels.saturating_mul(2)),
            0x03 | 0x0a | 0x20 => cells.saturating_mul(channels.saturating_mul(4)),
            // Normalised: 1, 2 and 4 channels of 8 bits, then of 16.
            0xc0 | 0xc6 => cells,
            0xc1 | 0xc3 | 0xc7 | 0xc9 => cells.saturating_mul(2),
            0xc2 | 0xc4 | 0xc8 | 0xca | 0x50 => cells.saturating_mul(4),
            0xc5 | 0xcb => cells.saturating_mul(8),
            // Blocks of 4 by 4 cells: BC1 and BC4 take 8 bytes, the others 16.
            0x91 | 0x92 | 0x97 | 0x98 => blocks(width, height).saturating_mul(8),
            0x93..=0x96 | 0x99..=0x9d => blocks(width, height).saturating_mul(16),
            // Pictures: a plane of brightness, and colours for every second cell
            // of every second row (4:2:0).
            0xb0 => cells.saturating_add(cells / 2),
            0x9f | 0xa1 => cells.saturating_mul(3),
            // Others: what a cell takes is what its channels say.
            _ => cells.saturating_mul(channels),
        }
    }
}

fn blocks(width: usize, height: usize) -> usize {
    width.div_ceil(4).saturating_mul(height.div_ceil(4))
}
