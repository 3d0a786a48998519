//! What the driver's functions do to memory, by kind: each call is passed on,
//! and its result is reported.

pub mod arrays;
pub mod contexts;
pub mod graphs;
pub mod linear;
pub mod pools;
pub mod virtual_memory;
