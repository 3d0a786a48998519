//! 64-bit Arm.

pub mod address;
pub mod entry;
pub mod jump;
pub mod main;
pub mod operators;
pub mod symbols;
pub mod system_call;
pub mod thread;
pub mod unwind;
pub mod variadic;
