//! Pages of Parquet columns, encoded here because this is most of what recording a block costs
//! (docs/design/0005-allocations-on-disk.md). Headers, footers and everything else of a file is the
//! Parquet library's.

mod chunk;
mod delta;
mod dictionary;
mod hybrid;
pub(crate) mod runs;
mod split;
mod squeeze;

pub(crate) use chunk::{Chunk, Layout, Page, Values};
pub(crate) use squeeze::Squeezer;
