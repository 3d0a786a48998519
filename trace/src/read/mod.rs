//! Reads a trace.

mod batches;
mod block_groups;
mod end;
mod extracts;
pub(crate) mod file;
pub(crate) mod limits;
mod pages;
mod pruning;
mod thrift;
mod trace;
pub(crate) mod unjoined;

pub use batches::Batches;
pub use block_groups::{AllocationRecord, BlockGroup};
pub use extracts::{Health, MemorySample};
pub use file::quiet_panics;
pub use trace::{AllocationFilter, Trace};
