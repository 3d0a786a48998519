//! Queries to the driver. None of them is one of the functions that this
//! library stands in front of.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::mem::transmute;

use memtrace_wire::device::NO_DEVICE;

use super::errno::keeping_errno;
use super::function::Function;
use super::{SUCCESS, Status};

/// CUDA_ERROR_NOT_FOUND
const NOT_FOUND: Status = 500;

/// What a driver answers that is too old for a query.
extern "C" fn unanswered() -> Status {
    NOT_FOUND
}

/// Functions of the driver under names of ours.
macro_rules! queries {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($argument:ident: $type:ty),*);)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As the driver demands.
            pub unsafe fn $name($($argument: $type),*) -> Status {
                static FUNCTION: Function = Function::new($symbol);
                if FUNCTION.find().is_null() {
                    // So that it is not looked up again each time.
                    FUNCTION.learn(unanswered as *mut c_void);
                }
                // SAFETY: the driver's function, or one that ignores its arguments.
                unsafe {
                    let function: unsafe extern "C" fn($($type),*) -> Status = transmute(FUNCTION.find());
                    function($($argument),*)
                }
            }
        )*
    };
}

queries! {
    /// The current context, 0 if there is none.
    current_context = c"cuCtxGetCurrent" (context: *mut u64);
    /// Its device.
    current_device = c"cuCtxGetDevice" (device: *mut c_int);
    /// All memory of a device.
    total_bytes = c"cuDeviceTotalMem_v2" (bytes: *mut usize, device: c_int);
    /// Its name.
    device_name = c"cuDeviceGetName" (name: *mut c_char, length: c_int, device: c_int);
    /// Whether its primary context is there.
    primary_state = c"cuDevicePrimaryCtxGetState" (device: c_int, flags: *mut c_uint, active: *mut c_int);
    /// Something about what an address belongs to.
    pointer_attribute = c"cuPointerGetAttribute" (to: *mut c_void, attribute: c_int, address: u64);
    /// The block that an address belongs to.
    address_range = c"cuMemGetAddressRange_v2" (base: *mut u64, bytes: *mut usize, address: u64);
    /// A figure of a pool.
    pool_attribute = c"cuMemPoolGetAttribute" (pool: u64, attribute: c_int, to: *mut u64);
    /// The pool that a device's stream-ordered memory comes from.
    device_pool = c"cuDeviceGetMemPool" (pool: *mut u64, device: c_int);
    /// A figure of what a device has reserved for graphs.
    graph_attribute = c"cuDeviceGetGraphMemAttribute" (device: c_int, attribute: c_int, to: *mut u64);
    /// Whether calls of a stream are recorded in a graph, and not executed.
    is_capturing = c"cuStreamIsCapturing" (stream: u64, status: *mut c_int);
    /// How physical memory was made.
    physical_properties = c"cuMemGetAllocationPropertiesFromHandle" (properties: *mut c_void, handle: u64);
}

/// The device and the context that the calling thread uses.
pub fn current() -> (u32, u64) {
    let (mut device, mut context) = (-1, 0);
    // SAFETY: two places for the answers.
    let known = keeping_errno(|| unsafe {
        current_context(&mut context) == SUCCESS && current_device(&mut device) == SUCCESS
    });
    if known { (ordinal(device), context) } else { (NO_DEVICE, 0) }
}

/// The driver says -1 of memory that is on no device.
pub fn ordinal(device: c_int) -> u32 {
    u32::try_from(device).unwrap_or(NO_DEVICE)
}
