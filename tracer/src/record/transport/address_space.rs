//! Address space where RLIMIT_AS bounds it: segments leave some to the recorder's own tables and
//! threads, for it aborts where it finds no memory.

use memtrace_wire::arch::page::bytes as page_bytes;
use rustix::process::{Resource, getrlimit};

/// Bytes that segments leave.
const LEFT: u64 = 64 << 20;

fn limit() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// What this process has mapped (proc_pid_statm(5): the first number, in pages).
fn mapped() -> Option<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split(' ').next()?.parse().ok()?;
    Some(pages * page_bytes())
}

/// True if as many bytes can be mapped and there is space left, as far as is known.
pub fn is_free(bytes: usize) -> bool {
    let free = limit().and_then(|limit| Some(limit.saturating_sub(mapped()?)));
    free.is_none_or(|free| free >= bytes as u64 + LEFT)
}

/// Lets all threads allocate from one arena where space is bounded: glibc sets 64 MiB of it aside for
/// each arena (mallopt(3)), in the end all that was left. Before there are threads.
pub fn share_an_arena() {
    #[cfg(target_env = "gnu")]
    if limit().is_some() {
        // SAFETY: sets a number of the allocator.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}
