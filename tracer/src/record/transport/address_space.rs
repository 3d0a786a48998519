//! Address space where RLIMIT_AS bounds it: segments leave some to the recorder's own tables and
//! threads, for it aborts where it finds no memory.

use std::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};

/// Bytes that segments leave.
const LEFT: usize = 64 << 20;

fn is_bounded() -> bool {
    getrlimit(Resource::As).current.is_some()
}

/// True if as many bytes can be mapped and there is space left. They are, for a moment.
pub fn is_free(bytes: usize) -> bool {
    if !is_bounded() {
        return true;
    }
    let bytes = bytes.saturating_add(LEFT);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let mapped = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), flags) };
    // SAFETY: it is the one just made, and nothing refers to it.
    mapped.is_ok_and(|base| unsafe { munmap(base, bytes) }.is_ok())
}

/// Lets all threads allocate from one arena where space is bounded: glibc sets 64 MiB of it aside for
/// each arena (mallopt(3)), in the end all that was left. Before there are threads.
pub fn share_an_arena() {
    #[cfg(target_env = "gnu")]
    if is_bounded() {
        // SAFETY: sets a number of the allocator.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}
