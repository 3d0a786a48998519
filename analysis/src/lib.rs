//! Constraints: works from trace tables only; prints nothing; touches no file but traces (through
//! memtrace-trace) and models (in [`mod@file`]); evaluating a law never panics, whatever the shape.
//!
//! Traces become runs ([`profile`]), runs become laws ([`mod@fit`], [`law`]), laws are kept in a
//! [`model`] and asked for bytes ([`mod@predict`]) and chunk sizes ([`plan`]); [`sweep`] chooses the
//! shapes worth running. What was never run has a first bound from its text ([`generic`]).

pub mod accesses;
mod choosing;
pub mod during;
pub mod error;
pub mod file;
pub mod fit;
pub mod flame;
pub mod generic;
pub mod law;
pub mod model;
pub mod operators;
mod parallel;
pub mod plan;
pub mod predict;
pub mod profile;
pub mod recompute;
pub mod report;
pub mod resident;
pub mod sites;
pub mod sweep;
pub mod variables;
pub mod varying;
pub mod verify;

pub use error::Error;
pub use fit::fit;
pub use model::{Law, Model, TaskBytes};
pub use predict::{Prediction, predict};
