//! 64-bit Arm.

pub mod prefetch;
