//! 64-bit Arm.

pub mod look_up;
pub mod report;
pub mod symbols;
pub mod thread;
