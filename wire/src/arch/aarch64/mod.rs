//! 64-bit Arm.

pub mod address;
pub mod counter;
pub mod page;
pub mod prefetch;
