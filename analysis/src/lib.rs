//! Constraints: works from trace tables only; prints nothing; touches no file but traces (through
//! memtrace-trace) and models (in [`mod@file`]); evaluating a law never panics, whatever the shape.
//!
//! Traces become runs ([`profile`]), runs become laws ([`mod@fit`], [`law`]), laws are kept in a
//! [`model`] and asked for bytes ([`mod@predict`]), chunk sizes ([`plan`]) and whole pipelines
//! ([`graph`]); [`sweep`] chooses the shapes worth running; [`online`] goes on learning while programs
//! run. What was never run has a first bound from its text ([`generic`]).

pub mod accesses;
pub mod ask;
mod choosing;
pub mod contents;
pub mod devices;
mod digest;
pub mod during;
pub mod error;
pub mod file;
pub mod fit;
pub mod flame;
pub mod generic;
pub mod graph;
pub mod law;
pub mod merge;
pub mod model;
pub mod online;
pub mod operators;
mod parallel;
pub mod plan;
pub mod predict;
pub mod profile;
pub mod provenance;
pub mod recompute;
pub mod report;
pub mod resident;
pub mod sequences;
pub mod sites;
pub mod sweep;
pub mod table;
pub mod variables;
pub mod varying;
pub mod verify;

pub use ask::Ask;
pub use error::Error;
pub use fit::fit;
pub use model::{Law, Model, TaskBytes};
pub use predict::{Prediction, predict};
pub use table::fit_table;
