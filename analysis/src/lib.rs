//! Constraints: works from trace tables only; prints nothing; touches no file but traces (through
//! memtrace-trace) and models (in [`model::file`]); evaluating a law never panics, whatever the
//! shape.
//!
//! The flow: traces become runs ([`profile`]), runs become laws ([`fit`]; [`law`] has what a law is
//! made of), laws are kept in a [`model`], which predicts bytes at a shape. From a model follow
//! chunk sizes ([`plan`]) and plans of whole pipelines ([`graph`]). [`sweep`] chooses the shapes
//! worth running, [`learn`] updates laws while programs run, [`generic`] bounds what was never run
//! from its source. [`placement`] chooses which blocks belong in fast memory. [`report`] says what a
//! trace holds, without any law.
//!
//! A module uses only those above it in the list below.

mod arch;
mod digest;
pub mod error;
mod parallel;
pub mod shape;
pub mod units;

/// Regressions, posteriors, Student's t, seeded random numbers.
pub mod stats;

/// Traces as runs of operators, and what was measured next to them.
pub mod profile;

/// What a trace says, as tables, JSON and flame graphs.
pub mod report;

/// What laws are made of: aligned sequences of allocations, and sizes as functions of the shape.
pub mod law;

/// Laws, kept in files, queried and evaluated.
pub mod model;

/// Laws fitted to runs, and proved.
pub mod fit;

/// Which shapes to run next.
pub mod sweep;

/// Bounds from the source of an operator.
pub mod generic;

/// Laws that learn from further runs, and forecasts of running spans.
pub mod learn;

/// Chunks of one operator.
pub mod plan;

/// Pipelines of operators.
pub mod graph;

/// Which large blocks belong in fast memory.
pub mod placement;

pub use error::Error;
pub use fit::{fit, fit_table};
pub use model::{Law, Model, Prediction, Query, TaskBytes, predict};
