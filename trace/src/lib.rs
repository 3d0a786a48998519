//! The Parquet tables of a memtrace trace. Knows no probe and no command line, prints nothing,
//! and never panics on what it reads: a damaged or hostile trace is an [`Error`].
//!
//! [`TraceWriter`] writes a trace while it is being recorded, [`Trace`] reads one. The structs in
//! [`rows`] say what a row means; `docs/trace-format.md` says it for readers in other languages.

mod atomic;
mod batches;
mod block_columns;
mod block_file;
mod block_writer;
mod budget;
mod decode;
mod encode;
mod error;
mod extracts;
mod labels;
mod lives;
mod meta;
mod pages;
mod parts;
mod pruning;
mod reader;
mod recover;
pub mod rows;
mod schema;
mod table_reader;
pub mod weights;
mod writer;

pub use batches::Batches;
pub use error::{Error, Result};
pub use extracts::{Health, Held};
pub use labels::UnknownLabel;
pub use lives::{BlockGroup, Life};
pub use meta::{Lost, Meta, OutOfMemory, Peak, Rows, SCHEMA_VERSION, Share, SiteShare, Totals};
pub use reader::{AllocationFilter, Trace};
pub use recover::{Recovered, recover};
pub use schema::Table;
pub use table_reader::quiet_panics;
pub use writer::{TraceWriter, replace_stacks};
