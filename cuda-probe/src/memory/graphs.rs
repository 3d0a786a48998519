//! Memory of graphs: an address is promised when a node is added, and backed while the graph runs,
//! from what the device reserves for all graphs.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use memtrace_wire::device::{DeviceRecord, Memory};
use memtrace_wire::event::Kind;

use super::linear;
use super::virtual_memory::Location;
use crate::driver::errno::keeping_errno;
use crate::driver::{SUCCESS, Status, query};
use crate::probe::{acquired, report};

/// CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
const USED: c_int = 0;
/// CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
const RESERVED: c_int = 2;
/// CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH
const RESERVED_MOST: c_int = 3;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`, which begins with `CUmemPoolProps`.
#[repr(C)]
pub struct AllocNode {
    kind: u32,
    handle_types: u32,
    location: Location,
    security: *const c_void,
    most: usize,
    usage: u16,
    reserved: [u8; 54],
    access: *const c_void,
    access_count: usize,
    bytes: usize,
    address: u64,
}

/// `CUgraphNodeParams`
#[repr(C)]
pub struct Node {
    kind: c_int,
    reserved: [c_int; 3],
    of_kind: OfKind,
}

/// What it has of its kind: the driver fills in the address of an allocation.
#[repr(C)]
union OfKind {
    alloc: core::mem::ManuallyDrop<AllocNode>,
    free: u64,
    room: [u64; 29],
}

const _: () = assert!(core::mem::offset_of!(AllocNode, bytes) == 104);
const _: () = assert!(core::mem::offset_of!(AllocNode, address) == 112);
const _: () = assert!(core::mem::offset_of!(Node, of_kind) == 16);

/// A bit for each device that memory was promised on.
static DEVICES: AtomicU64 = AtomicU64::new(0);

/// `cuGraphAddMemAllocNode`
pub unsafe fn add_alloc(
    call: impl FnOnce() -> Status,
    _node: *mut u64,
    _graph: u64,
    _dependencies: *const u64,
    _count: usize,
    parameters: *mut AllocNode,
) -> Status {
    let status = call();
    if status == SUCCESS {
        // SAFETY: the call has filled in the address.
        unsafe { reported(&*parameters) };
    }
    status
}

/// `cuGraphAddMemFreeNode`
pub unsafe fn add_free(
    call: impl FnOnce() -> Status,
    _node: *mut u64,
    _graph: u64,
    _dependencies: *const u64,
    _count: usize,
    address: u64,
) -> Status {
    linear::release(Memory::Linear, call, address)
}

/// `cuGraphAddNode`
pub unsafe fn add(
    call: impl FnOnce() -> Status,
    _node: *mut u64,
    _graph: u64,
    _dependencies: *const u64,
    _count: usize,
    parameters: *mut Node,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { added(call, parameters) }
}

/// The same with data for its edges.
pub unsafe fn add_with_edges(
    call: impl FnOnce() -> Status,
    _node: *mut u64,
    _graph: u64,
    _dependencies: *const u64,
    _edges: *const c_void,
    _count: usize,
    parameters: *mut Node,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { added(call, parameters) }
}

/// `cuGraphLaunch`
pub unsafe fn launch(call: impl FnOnce() -> Status, _graph: u64, _stream: u64) -> Status {
    let status = call();
    sample_all();
    status
}

/// A launch allocates what its nodes promised, and a block of a graph may be freed outside of it.
pub fn sample_all() {
    let devices = DEVICES.load(Ordering::Relaxed);
    (0..u64::BITS).filter(|device| devices & (1 << device) != 0).for_each(sample);
}

/// `cuDeviceGraphMemTrim`
pub unsafe fn trim(call: impl FnOnce() -> Status, device: c_int) -> Status {
    let status = call();
    sample(device as u32);
    status
}

/// True if calls of a stream are recorded in a graph: what they acquire is a promise.
pub fn is_capturing(stream: u64) -> bool {
    const ACTIVE: c_int = 1;
    let mut capturing = 0;
    // SAFETY: a place for the answer.
    let status = keeping_errno(|| unsafe { query::is_capturing(stream, &mut capturing) });
    status == SUCCESS && capturing == ACTIVE
}

/// Reports memory that exists while a graph runs.
#[inline(always)]
pub fn promised(address: u64, bytes: usize, device: u32) {
    let memory = Memory::Graph as u32;
    acquired(address, &DeviceRecord { memory, device, bytes: bytes as u64, ..DeviceRecord::NONE });
    DEVICES.fetch_or(1u64.checked_shl(device).unwrap_or(0), Ordering::Relaxed);
}

#[inline(always)]
fn reported(node: &AllocNode) {
    promised(node.address, node.bytes, node.location.device());
}

#[inline(always)]
unsafe fn added(call: impl FnOnce() -> Status, parameters: *mut Node) -> Status {
    /// CU_GRAPH_NODE_TYPE_MEM_ALLOC
    const ALLOC: c_int = 10;
    /// CU_GRAPH_NODE_TYPE_MEM_FREE
    const FREE: c_int = 11;
    // SAFETY: the caller's parameters, which are as their kind says; the driver refuses null.
    unsafe {
        match parameters.as_ref().map(|node| node.kind) {
            Some(ALLOC) => {
                let status = call();
                if status == SUCCESS {
                    reported(&(*parameters).of_kind.alloc);
                }
                status
            }
            Some(FREE) => linear::release(Memory::Linear, call, (*parameters).of_kind.free),
            _ => call(),
        }
    }
}

/// Reports what a device has reserved for graphs, and what of it is in use.
fn sample(device: u32) {
    let figure = |attribute| {
        let mut bytes = 0;
        // SAFETY: a place for the answer.
        let status =
            keeping_errno(|| unsafe { query::graph_attribute(device as c_int, attribute, &mut bytes) });
        (status == SUCCESS).then_some(bytes)
    };
    let Some((bytes, extra)) = figure(RESERVED).zip(figure(USED)) else { return };
    let most = figure(RESERVED_MOST).unwrap_or(bytes);
    let memory = Memory::Graph as u32;
    report(Kind::DevicePool, 0, &DeviceRecord { memory, device, bytes, extra, most, ..DeviceRecord::NONE });
}
