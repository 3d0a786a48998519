//! Constraints: works from trace tables only; prints nothing; touches no file but traces (through
//! memtrace-trace) and models (in [`file`]); evaluating a law never panics, whatever the shape.
//!
//! Traces become runs ([`profile`]), runs become laws ([`fit`], [`law`]), laws are kept in a
//! [`model`] and asked for bytes ([`predict`]) and chunk sizes ([`plan`]); [`sweep`] chooses the
//! shapes worth running.

pub mod error;
pub mod law;
pub mod model;
pub mod plan;

pub use error::Error;
pub use model::{Law, Model, TaskBytes};
