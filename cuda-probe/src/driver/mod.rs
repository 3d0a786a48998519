//! The driver behind the functions that this library exports under the same names: where they are,
//! what they answer, and whether the calling thread is inside one of them.

pub mod errno;
pub mod function;
pub mod linker;
pub mod nesting;
pub mod query;

use core::ffi::{c_int, c_void};

/// `CUresult`.
pub type Status = c_int;
/// CUDA_SUCCESS
pub const SUCCESS: Status = 0;
/// CUDA_ERROR_NOT_INITIALIZED
pub const NOT_INITIALIZED: Status = 3;

/// True if an address lies in the driver.
pub fn contains(address: *mut c_void) -> bool {
    linker::file_of(address).is_some_and(|file| {
        let name = file.to_bytes().rsplit(|byte| *byte == b'/').next();
        name.is_some_and(|name| name.starts_with(b"libcuda.so"))
    })
}
