//! A function that this library exports in place of the driver's, and how one is
//! chosen by name and version.

use core::ffi::{CStr, c_int, c_void};

use crate::driver::function::Function;

/// One of the functions.
pub struct Call {
    /// The version of CUDA that it came with.
    pub since: c_int,
    /// Ours.
    pub own: *mut c_void,
    /// The driver's.
    pub function: &'static Function,
}

// SAFETY: nothing in it changes but what is atomic.
unsafe impl Sync for Call {}

/// The function exported under this name.
pub fn find(calls: &'static [Call], name: &CStr) -> Option<&'static Call> {
    calls.iter().find(|call| call.function.name() == name)
}

/// The function that a name without a suffix means: the newest that this version of CUDA has; where
/// there are two, the one whose default stream is the thread's own, or the other.
pub fn of_version(
    calls: &'static [Call],
    name: &CStr,
    version: c_int,
    per_thread: bool,
) -> Option<&'static Call> {
    let of_name = || {
        let named = calls.iter().map(|call| (call, Suffixes::of(call.function.name())));
        named.filter(|(call, suffixes)| suffixes.name == name.to_bytes() && call.since <= version)
    };
    let has_own = of_name().any(|(_, suffixes)| suffixes.per_thread);
    let chosen = of_name().filter(|(_, suffixes)| suffixes.per_thread == (per_thread && has_own));
    chosen.max_by_key(|(call, _)| call.since).map(|(call, _)| call)
}

/// A name without the suffixes of its versions.
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
