//! Reads a trace.

mod batches;
mod block_groups;
mod end;
mod extracts;
pub(crate) mod file;
pub(crate) mod limits;
mod pages;
mod pruning;
mod span_groups;
mod thrift;
mod trace;
pub(crate) mod unjoined;
mod within;

pub use batches::Batches;
pub use block_groups::{AllocationRecord, BlockGroup};
pub use extracts::{Health, MemorySample};
pub use file::quiet_panics;
pub use span_groups::{SpanGroup, SpanRecord};
pub use trace::{AllocationFilter, Trace};
