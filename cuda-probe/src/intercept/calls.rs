//! The list of the driver's functions that this library stands in front of. Exports, the answers of
//! `dlsym` and those of `cuGetProcAddress` are made from it, so that they cannot disagree.

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use core::mem::transmute;

use super::call::Call;
use super::proc_address;
use crate::driver::function::{Function, c_name};
use crate::driver::nesting::Outermost;
use crate::driver::{NOT_INITIALIZED, SUCCESS, Status};
use crate::memory::arrays::{self, Deep, DeepShort, Flat, FlatShort};
use crate::memory::contexts;
use crate::memory::graphs::{self, AllocNode, Node};
use crate::memory::linear::{self, IpcHandle};
use crate::memory::pools::{self, LEGACY, OWN};
use crate::memory::virtual_memory::{self, Properties};
use crate::probe;

macro_rules! calls {
    ($($since:literal $name:ident($($argument:ident: $type:ty),*) => $report:path;)*) => {
        $(
            /// Calls the driver's function of this name and reports what came of it.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> Status {
                let function = functions::$name.find();
                if function.is_null() {
                    return NOT_INITIALIZED;
                }
                // SAFETY: the driver's function of this name has this signature; the program's
                // call, passed on.
                unsafe {
                    let function: unsafe extern "C" fn($($type),*) -> Status = transmute(function);
                    let outermost = if probe::is_there() { Outermost::enter() } else { None };
                    let Some(_outermost) = outermost else { return function($($argument),*) };
                    $report(|| function($($argument),*), $($argument),*)
                }
            }
        )*

        #[allow(non_upper_case_globals)]
        mod functions {
            use super::*;
            $(pub static $name: Function = Function::new(c_name(concat!(stringify!($name), "\0")));)*
        }

        /// All of them.
        pub static CALLS: &[Call] = &[
            $(Call { since: $since, own: $name as *mut c_void, function: &functions::$name },)*
        ];
    };
}

calls! {
    11030 cuGetProcAddress(symbol: *const c_char, out: *mut *mut c_void, version: c_int, flags: c_ulonglong) => get_address;
    12000 cuGetProcAddress_v2(symbol: *const c_char, out: *mut *mut c_void, version: c_int, flags: c_ulonglong, why: *mut c_int) => get_address_and_why;

    2000 cuMemAlloc(out: *mut u32, bytes: c_uint) => linear::alloc_short;
    3020 cuMemAlloc_v2(out: *mut u64, bytes: usize) => linear::alloc;
    2000 cuMemAllocPitch(out: *mut u32, pitch: *mut c_uint, width: c_uint, height: c_uint, element: c_uint) => linear::alloc_pitch_short;
    3020 cuMemAllocPitch_v2(out: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint) => linear::alloc_pitch;
    6000 cuMemAllocManaged(out: *mut u64, bytes: usize, flags: c_uint) => linear::alloc_managed;
    2000 cuMemAllocHost(out: *mut *mut c_void, bytes: c_uint) => linear::alloc_host_short;
    3020 cuMemAllocHost_v2(out: *mut *mut c_void, bytes: usize) => linear::alloc_host;
    2020 cuMemHostAlloc(out: *mut *mut c_void, bytes: usize, flags: c_uint) => linear::host_alloc;
    4000 cuMemHostRegister(block: *mut c_void, bytes: usize, flags: c_uint) => linear::register;
    6050 cuMemHostRegister_v2(block: *mut c_void, bytes: usize, flags: c_uint) => linear::register;
    4010 cuIpcOpenMemHandle(out: *mut u64, handle: IpcHandle, flags: c_uint) => linear::open_ipc;
    11000 cuIpcOpenMemHandle_v2(out: *mut u64, handle: IpcHandle, flags: c_uint) => linear::open_ipc;
    2000 cuMemFreeHost(block: *mut c_void) => linear::free_host;
    4000 cuMemHostUnregister(block: *mut c_void) => linear::unregister;
    4010 cuIpcCloseMemHandle(address: u64) => linear::close_ipc;

    2000 cuMemFree(address: u32) => pools::free_short;
    3020 cuMemFree_v2(address: u64) => pools::free_now;
    11020 cuMemAllocAsync(out: *mut u64, bytes: usize, stream: u64) => pools::alloc_async::<LEGACY>;
    11020 cuMemAllocAsync_ptsz(out: *mut u64, bytes: usize, stream: u64) => pools::alloc_async::<OWN>;
    11020 cuMemAllocFromPoolAsync(out: *mut u64, bytes: usize, pool: u64, stream: u64) => pools::alloc_from_pool::<LEGACY>;
    11020 cuMemAllocFromPoolAsync_ptsz(out: *mut u64, bytes: usize, pool: u64, stream: u64) => pools::alloc_from_pool::<OWN>;
    11020 cuMemFreeAsync(address: u64, stream: u64) => pools::free_async;
    11020 cuMemFreeAsync_ptsz(address: u64, stream: u64) => pools::free_async;
    11020 cuMemPoolTrimTo(pool: u64, keep: usize) => pools::trim;
    11020 cuMemPoolDestroy(pool: u64) => pools::destroy;
    11020 cuMemPoolImportPointer(out: *mut u64, pool: u64, share: *const c_void) => pools::import_pointer;

    2000 cuArrayCreate(out: *mut u64, array: *const FlatShort) => arrays::create_short;
    3020 cuArrayCreate_v2(out: *mut u64, array: *const Flat) => arrays::create;
    2000 cuArray3DCreate(out: *mut u64, array: *const DeepShort) => arrays::create_deep_short;
    3020 cuArray3DCreate_v2(out: *mut u64, array: *const Deep) => arrays::create_deep;
    5000 cuMipmappedArrayCreate(out: *mut u64, array: *const Deep, levels: c_uint) => arrays::create_levels;
    2000 cuArrayDestroy(array: u64) => arrays::destroy;
    5000 cuMipmappedArrayDestroy(array: u64) => arrays::destroy_levels;

    10020 cuMemCreate(out: *mut u64, bytes: usize, properties: *const Properties, flags: c_ulonglong) => virtual_memory::create;
    11000 cuMemRetainAllocationHandle(out: *mut u64, address: *const c_void) => virtual_memory::retain;
    10020 cuMemImportFromShareableHandle(out: *mut u64, handle: *const c_void, kind: c_int) => virtual_memory::import;
    10020 cuMemRelease(handle: u64) => virtual_memory::release;
    10020 cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: c_ulonglong) => virtual_memory::map;
    10020 cuMemUnmap(address: u64, bytes: usize) => virtual_memory::unmap;

    11040 cuGraphAddMemAllocNode(node: *mut u64, graph: u64, dependencies: *const u64, count: usize, parameters: *mut AllocNode) => graphs::add_alloc;
    11040 cuGraphAddMemFreeNode(node: *mut u64, graph: u64, dependencies: *const u64, count: usize, address: u64) => graphs::add_free;
    12020 cuGraphAddNode(node: *mut u64, graph: u64, dependencies: *const u64, count: usize, parameters: *mut Node) => graphs::add;
    12030 cuGraphAddNode_v2(node: *mut u64, graph: u64, dependencies: *const u64, edges: *const c_void, count: usize, parameters: *mut Node) => graphs::add_with_edges;
    13040 cuGraphAddNode_v3(node: *mut u64, graph: u64, dependencies: *const u64, edges: *const c_void, count: usize, parameters: *mut Node) => graphs::add_with_edges;
    10000 cuGraphLaunch(graph: u64, stream: u64) => graphs::launch;
    10000 cuGraphLaunch_ptsz(graph: u64, stream: u64) => graphs::launch;
    11040 cuDeviceGraphMemTrim(device: c_int) => graphs::trim;

    7000 cuDevicePrimaryCtxRetain(out: *mut u64, device: c_int) => contexts::retain_primary;
    7000 cuDevicePrimaryCtxRelease(device: c_int) => contexts::release_primary;
    11000 cuDevicePrimaryCtxRelease_v2(device: c_int) => contexts::release_primary;
    7000 cuDevicePrimaryCtxReset(device: c_int) => contexts::reset_primary;
    11000 cuDevicePrimaryCtxReset_v2(device: c_int) => contexts::reset_primary;
    2000 cuCtxDestroy(context: u64) => contexts::destroy;
    4000 cuCtxDestroy_v2(context: u64) => contexts::destroy;
    2000 cuCtxSynchronize() => contexts::synchronize;
    13000 cuCtxSynchronize_v2(context: u64) => contexts::synchronize_context;
    2000 cuStreamSynchronize(stream: u64) => contexts::synchronize_with;
    7000 cuStreamSynchronize_ptsz(stream: u64) => contexts::synchronize_with;
    2000 cuEventSynchronize(event: u64) => contexts::synchronize_with;
}

/// `cuGetProcAddress`
unsafe fn get_address(
    call: impl FnOnce() -> Status,
    symbol: *const c_char,
    out: *mut *mut c_void,
    version: c_int,
    flags: c_ulonglong,
) -> Status {
    let status = call();
    if status == SUCCESS && !symbol.is_null() && !out.is_null() {
        // SAFETY: the caller's string, and the place for the answer.
        unsafe { *out = proc_address::instead(CALLS, CStr::from_ptr(symbol), *out, version, flags) };
    }
    status
}

/// The same with one more answer, which stays as it is.
unsafe fn get_address_and_why(
    call: impl FnOnce() -> Status,
    symbol: *const c_char,
    out: *mut *mut c_void,
    version: c_int,
    flags: c_ulonglong,
    _why: *mut c_int,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { get_address(call, symbol, out, version, flags) }
}
