//! What a new thread, or a thread of a team, begins with.

use core::ffi::c_void;

/// A function and its argument: two registers.
#[repr(C)]
pub struct Start {
    /// Where it begins.
    pub function: *mut c_void,
    /// Its only argument.
    pub argument: *mut c_void,
}
