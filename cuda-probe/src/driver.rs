//! The driver's own functions, behind those that this library exports under the same names.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::linker;

/// `CUresult`.
pub type Status = c_int;
/// CUDA_SUCCESS
pub const SUCCESS: Status = 0;
/// CUDA_ERROR_NOT_INITIALIZED
pub const NOT_INITIALIZED: Status = 3;
/// CUDA_ERROR_NOT_FOUND
const NOT_FOUND: Status = 500;

/// One of the driver's functions.
pub struct Function {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Function {
    /// The one of this name, which is not looked for yet.
    pub const fn new(name: &'static CStr) -> Function {
        Function { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Its name.
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// Where it is; null if that is not known yet.
    pub fn known(&self) -> *mut c_void {
        self.address.load(Ordering::Relaxed)
    }

    /// Where it is; null if there is no driver.
    #[inline]
    pub fn find(&self) -> *mut c_void {
        let known = self.known();
        if known.is_null() { self.look_up() } else { known }
    }

    /// A look-up of the program has found it here. Its module stays loaded from then on: the program may close it and open it
    /// again, and it would then be somewhere else.
    pub fn learn(&self, address: *mut c_void) {
        // The first one stays: what else a driver says of the same name is the same.
        if self.known().is_null() {
            linker::keep(address);
            let _ = self.address.compare_exchange(null_mut(), address, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let next = linker::symbol(libc::RTLD_NEXT, self.name);
        let found = if next.is_null() { self.look_up_in_driver() } else { next };
        if !found.is_null() {
            self.learn(found);
        }
        found
    }

    /// Most programs open the driver for themselves: the next definition is not among what all may see.
    fn look_up_in_driver(&self) -> *mut c_void {
        let library = library();
        if library.is_null() { null_mut() } else { linker::symbol(library, self.name) }
    }
}

/// The driver, if the program has loaded it. It stays loaded from then on: its functions are known here.
fn library() -> *mut c_void {
    static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let known = LIBRARY.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: only asks for a library that is loaded already.
    let found = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    LIBRARY.store(found, Ordering::Relaxed);
    found
}

/// True if an address lies in the driver.
pub fn contains(address: *mut c_void) -> bool {
    linker::file_of(address).is_some_and(|file| {
        let name = file.to_bytes().rsplit(|byte| *byte == b'/').next();
        name.is_some_and(|name| name.starts_with(b"libcuda.so"))
    })
}

/// What a driver that is too old for a question answers.
extern "C" fn unanswered() -> Status {
    NOT_FOUND
}

/// Questions to the driver. None of them is one of the functions that this library stands in front of.
macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($argument:ident: $type:ty),*);)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As the driver demands.
            pub unsafe fn $name($($argument: $type),*) -> Status {
                static FUNCTION: Function = Function::new($symbol);
                if FUNCTION.find().is_null() {
                    // Not to be looked for again each time.
                    FUNCTION.learn(unanswered as *mut c_void);
                }
                // SAFETY: the driver's function, or one that takes whatever it is given.
                unsafe {
                    let function: unsafe extern "C" fn($($type),*) -> Status = transmute(FUNCTION.find());
                    function($($argument),*)
                }
            }
        )*
    };
}

questions! {
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
    /// Whether calls of a stream are put down in a graph, and not done.
    is_capturing = c"cuStreamIsCapturing" (stream: u64, status: *mut c_int);
    /// How physical memory was made.
    physical_properties = c"cuMemGetAllocationPropertiesFromHandle" (properties: *mut c_void, handle: u64);
}
