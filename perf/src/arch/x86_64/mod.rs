//! x86-64.

pub mod code;
pub mod registers;
