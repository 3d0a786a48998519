//! Libraries that are unloaded: other code may come to lie where theirs was.

use core::ffi::{c_int, c_void};

use super::openmp;
use crate::next;
use crate::stack::modules;

/// dlclose(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(library: *mut c_void) -> c_int {
    modules::change();
    openmp::forget();
    // SAFETY: the program's call, passed on.
    let result = unsafe { next::dlclose(library) };
    modules::change();
    result
}
