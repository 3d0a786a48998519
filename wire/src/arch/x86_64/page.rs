//! Pages of memory.

/// Bytes of a page.
#[inline(always)]
pub const fn bytes() -> u64 {
    4096
}
