//! The atomics of shared memory. With `--cfg loom` they are those of a model checker
//! (`tests/orders.rs`).

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64};
