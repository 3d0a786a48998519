//! 64-bit Arm.

pub mod code;
pub mod registers;
