//! Writes a trace.

mod block_columns;
mod block_file;
mod block_writer;
mod budget;
mod growing_table;
mod pages;
mod parts;
mod settled;
mod span_rows;
mod whole_table;
mod writer;

pub(crate) use block_columns::BlockColumns;
pub(crate) use block_file::BlockFile;
pub(crate) use parts::Parts;
pub(crate) use settled::Settling;
pub use span_rows::SpanCursor;
pub(crate) use whole_table::complete;
pub use whole_table::replace_stacks;
pub use writer::TraceWriter;
