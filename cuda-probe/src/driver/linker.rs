//! The dynamic linker's `dlsym`, behind the one that this library exports.

use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::arch::symbols::OLDEST_GLIBC;

/// `dlsym(3)`.
type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The C library's own. Our look-ups go there.
static OWN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// The next definition after ours: the same, or that of another library that stands in front of it.
pub static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Finds the next definition of `dlsym`. Nothing is allocated here: an allocator may have called us
/// (jemalloc calls `dlsym` while it starts), so only names that exist are looked up. The architecture
/// has had this version from its beginning, and the C library keeps it along with the newer one
/// (GLIBC_2.34): both are one function.
pub fn find_next() -> *mut c_void {
    let next = NEXT.load(Ordering::Relaxed);
    if !next.is_null() {
        return next;
    }
    // SAFETY: NUL-terminated names. Races find the same.
    unsafe {
        let own = libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), OLDEST_GLIBC.as_ptr());
        OWN.store(own, Ordering::Relaxed);
        let next = symbol(libc::RTLD_NEXT, c"dlsym");
        NEXT.store(next, Ordering::Relaxed);
        next
    }
}

/// The symbol of that name behind a handle, as this library sees it; null if there is none.
pub fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    let own = OWN.load(Ordering::Relaxed);
    if own.is_null() {
        find_next();
    }
    let own = OWN.load(Ordering::Relaxed);
    if own.is_null() {
        return null_mut();
    }
    // SAFETY: the C library's function; the caller passes a valid handle.
    unsafe { transmute::<*mut c_void, Dlsym>(own)(handle, name.as_ptr()) }
}

/// The same by the next definition of `dlsym`: another library that stands in front of it may
/// answer differently.
pub fn next_symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    let next = find_next();
    if next.is_null() {
        return null_mut();
    }
    // SAFETY: a function with the signature of dlsym(3); the caller passes a valid handle.
    unsafe { transmute::<*mut c_void, Dlsym>(next)(handle, name.as_ptr()) }
}

/// Keeps the module that an address lies in loaded until the program ends.
pub fn keep_loaded(address: *mut c_void) {
    if let Some(file) = file_of(address) {
        // SAFETY: only finds a library that is loaded already.
        unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    }
}

/// Clears the text of a look-up's failure: a look-up that succeeds does so, and the program may
/// read it next (dlerror(3)).
pub fn clear_error() {
    // SAFETY: clears the calling thread's own text.
    unsafe { libc::dlerror() };
}

/// The file of the module that an address lies in.
pub fn file_of(address: *mut c_void) -> Option<&'static CStr> {
    // SAFETY: dladdr(3) takes any address; all zeroes is a valid Dl_info; the name
    // lives as long as the module.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        let found = libc::dladdr(address, &mut info) != 0 && !info.dli_fname.is_null();
        found.then(|| CStr::from_ptr(info.dli_fname))
    }
}
