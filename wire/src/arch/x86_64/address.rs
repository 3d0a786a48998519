//! Addresses of heap blocks.

/// An acquire takes two words if so many low bits of its address are zero, and all from the
/// 47th on. Blocks have addresses below 2⁴⁷.
pub const ZERO_BITS: u32 = 3;
