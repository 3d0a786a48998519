//! What the laws, models and plans of this crate promise, by its public interface. One program, for it links
//! the readers of Parquet once.

mod accesses;
mod bounds;
mod common;
mod labels;
mod laws;
mod merging;
mod model_file;
mod placement;
mod profile;
mod resident_and_data;
mod steady_chunks;
mod sweep;
