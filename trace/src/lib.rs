//! The Parquet tables of a memtrace trace. Knows no probe and no command line, prints nothing,
//! and never panics on what it reads: a damaged or hostile trace is an [`Error`].
//!
//! [`TraceWriter`] writes a trace while it is being recorded, [`Trace`] reads one. [`rows`]
//! declares the tables; `docs/trace-format.md` describes them for readers in other languages.

mod atomic;
mod column;
mod directory;
mod error;
mod files;
mod meta;
mod read;
mod recover;
pub mod rows;
mod several;
mod table;
#[cfg(test)]
mod tests;
pub mod weights;
mod write;

pub use column::{Column, ColumnType, Unit, UnknownLabel};
pub use directory::Directory;
pub use error::{Error, Result};
pub use files::is_trace;
pub use meta::{
    Lost, MemoryLimit, Meta, OutOfMemory, Peak, Refused, Rows, SCHEMA_VERSION, Share, SiteShare, Totals,
};
pub use read::{
    AllocationFilter, AllocationRecord, Batches, BlockGroup, Health, MemorySample, SpanGroup, SpanRecord,
    Trace, quiet_panics,
};
pub use recover::{Recovered, recover};
pub use several::traces_in;
pub use table::Table;
pub use write::{SpanCursor, TraceWriter, replace_stacks};
