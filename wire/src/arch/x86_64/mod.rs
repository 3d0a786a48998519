//! x86-64.

pub mod address;
pub mod counter;
pub mod page;
pub mod prefetch;
