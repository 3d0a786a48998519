//! Memory that the allocator keeps for later.

/// Returns unused pages to the system. After large buffers were released glibc lets its heap grow to
/// several times what is in use: small blocks that stay lie between those that come and go.
pub(super) fn trim() {
    // SAFETY: malloc_trim(3) has no preconditions; it touches free memory only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
