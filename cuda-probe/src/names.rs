//! The list of the driver's functions that this library stands in front of. It makes what is exported, what `dlsym` answers and
//! what `cuGetProcAddress` answers, so that these cannot disagree.

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use core::mem::transmute;

use crate::arrays::{Deep, DeepShort, Flat, FlatShort};
use crate::driver::{Function, NOT_INITIALIZED, Status};
use crate::graphs::{AllocNode, Node};
use crate::memory::IpcHandle;
use crate::nesting::Outermost;
use crate::pools::{LEGACY, OWN};
use crate::virtual_memory::Properties;
use crate::{arrays, contexts, door, graphs, lookup, memory, pools, virtual_memory};

/// One of them.
pub struct Call {
    /// The version of CUDA that it came with.
    since: c_int,
    /// Ours.
    pub own: *mut c_void,
    /// The driver's.
    pub function: &'static Function,
}

// SAFETY: nothing in it changes but what is atomic.
unsafe impl Sync for Call {}

macro_rules! calls {
    ($($since:literal $name:ident($($argument:ident: $type:ty),*) => $told:path;)*) => {
        $(
            /// The driver's function of this name, told of.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> Status {
                let function = functions::$name.find();
                if function.is_null() {
                    return NOT_INITIALIZED;
                }
                // SAFETY: the driver's function of this name has this signature; the program's call, passed on.
                unsafe {
                    let function: unsafe extern "C" fn($($type),*) -> Status = transmute(function);
                    let outermost = if door::is_there() { Outermost::enter() } else { None };
                    let Some(_outermost) = outermost else { return function($($argument),*) };
                    $told(|| function($($argument),*), $($argument),*)
                }
            }
        )*

        #[allow(non_upper_case_globals)]
        mod functions {
            use super::*;
            $(pub static $name: Function = Function::new(c_name(concat!(stringify!($name), "\0")));)*
        }

        static CALLS: &[Call] = &[
            $(Call { since: $since, own: $name as *mut c_void, function: &functions::$name },)*
        ];
    };
}

calls! {
    11030 cuGetProcAddress(symbol: *const c_char, out: *mut *mut c_void, version: c_int, flags: c_ulonglong) => lookup::get_address;
    12000 cuGetProcAddress_v2(symbol: *const c_char, out: *mut *mut c_void, version: c_int, flags: c_ulonglong, why: *mut c_int) => lookup::get_address_and_why;

    2000 cuMemAlloc(out: *mut u32, bytes: c_uint) => memory::alloc_short;
    3020 cuMemAlloc_v2(out: *mut u64, bytes: usize) => memory::alloc;
    2000 cuMemAllocPitch(out: *mut u32, pitch: *mut c_uint, width: c_uint, height: c_uint, element: c_uint) => memory::alloc_pitch_short;
    3020 cuMemAllocPitch_v2(out: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint) => memory::alloc_pitch;
    6000 cuMemAllocManaged(out: *mut u64, bytes: usize, flags: c_uint) => memory::alloc_managed;
    2000 cuMemAllocHost(out: *mut *mut c_void, bytes: c_uint) => memory::alloc_host_short;
    3020 cuMemAllocHost_v2(out: *mut *mut c_void, bytes: usize) => memory::alloc_host;
    2020 cuMemHostAlloc(out: *mut *mut c_void, bytes: usize, flags: c_uint) => memory::host_alloc;
    4000 cuMemHostRegister(block: *mut c_void, bytes: usize, flags: c_uint) => memory::register;
    6050 cuMemHostRegister_v2(block: *mut c_void, bytes: usize, flags: c_uint) => memory::register;
    4010 cuIpcOpenMemHandle(out: *mut u64, handle: IpcHandle, flags: c_uint) => memory::open_ipc;
    11000 cuIpcOpenMemHandle_v2(out: *mut u64, handle: IpcHandle, flags: c_uint) => memory::open_ipc;
    2000 cuMemFreeHost(block: *mut c_void) => memory::free_host;
    4000 cuMemHostUnregister(block: *mut c_void) => memory::unregister;
    4010 cuIpcCloseMemHandle(address: u64) => memory::close_ipc;

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

/// A name that ends with NUL.
pub const fn c_name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name has no NUL inside"),
    }
}

/// The function exported under this name.
pub fn find(name: &CStr) -> Option<&'static Call> {
    CALLS.iter().find(|call| call.function.name() == name)
}

/// The function that a program means who asks for a name without a suffix: the newest that this version of CUDA has; of those
/// that there are two of, the one whose default stream is the thread's own, or the other.
pub fn of_version(name: &CStr, version: c_int, per_thread: bool) -> Option<&'static Call> {
    let of_name = || {
        let calls = CALLS.iter().map(|call| (call, Suffixes::of(call.function.name())));
        calls.filter(|(call, suffixes)| suffixes.name == name.to_bytes() && call.since <= version)
    };
    let has_own = of_name().any(|(_, suffixes)| suffixes.per_thread);
    let chosen = of_name().filter(|(_, suffixes)| suffixes.per_thread == (per_thread && has_own));
    chosen.max_by_key(|(call, _)| call.since).map(|(call, _)| call)
}

/// A name without what tells its versions apart.
struct Suffixes {
    name: &'static [u8],
    per_thread: bool,
}

impl Suffixes {
    fn of(name: &'static CStr) -> Suffixes {
        let name = name.to_bytes();
        let (name, per_thread) = name.strip_suffix(b"_ptsz").map_or((name, false), |name| (name, true));
        let plain = name.strip_suffix(b"_v2").or_else(|| name.strip_suffix(b"_v3"));
        Suffixes { name: plain.unwrap_or(name), per_thread }
    }
}
