//! Addresses of heap blocks.

/// An acquire takes two words if so many low bits of its address are zero, and all from the
/// 48th on. Blocks have addresses below 2⁴⁸, and programs' own lie in its upper half.
pub const ZERO_BITS: u32 = 4;
