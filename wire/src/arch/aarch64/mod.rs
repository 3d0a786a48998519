//! 64-bit Arm.

pub mod counter;
pub mod page;
pub mod prefetch;
