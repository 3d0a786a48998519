//! The driver's own functions, behind those that this library exports under the same names.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::linker;

/// One of the driver's functions.
pub struct Function {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Function {
    /// The one of this name, not looked up yet.
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

    /// A look-up of the program has found it here. Its module stays loaded from then on: the
    /// program may close it and open it again, and it would then be somewhere else.
    pub fn learn(&self, address: *mut c_void) {
        // The first address stays: all that a driver gives for one name are the same function.
        if self.known().is_null() {
            linker::keep_loaded(address);
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

    /// Most programs open the driver with local scope: the next
    /// definition is not in the global one.
    fn look_up_in_driver(&self) -> *mut c_void {
        let library = library();
        if library.is_null() { null_mut() } else { linker::symbol(library, self.name) }
    }
}

/// The driver, if the program has loaded it. It stays loaded from then on:
/// its functions are known here.
fn library() -> *mut c_void {
    static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let known = LIBRARY.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: only finds a library that is loaded already.
    let found = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    LIBRARY.store(found, Ordering::Relaxed);
    found
}

/// A name that ends with NUL.
pub const fn c_name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name has no NUL inside"),
    }
}
