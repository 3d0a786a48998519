//! x86-64.

pub mod counter;
pub mod page;
pub mod prefetch;
