//! Address space where RLIMIT_AS bounds it: segments leave some to the recorder's own tables and
//! threads, for it aborts where it finds no memory.

use crate::record::procfs::limits::of_address_space;

/// Bytes that segments leave.
const LEFT: u64 = 64 << 20;

/// True if as many bytes can be mapped and there is space left, as far as is known.
pub fn is_free(bytes: usize) -> bool {
    of_address_space(std::process::id()).is_none_or(|limit| limit.room() >= bytes as u64 + LEFT)
}

/// Lets all threads allocate from one arena where space is bounded: glibc sets 64 MiB of it aside for
/// each arena (mallopt(3)), in the end all that was left. Before there are threads.
pub fn share_an_arena() {
    #[cfg(target_env = "gnu")]
    if of_address_space(std::process::id()).is_some() {
        // SAFETY: sets a number of the allocator.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}
