//! Chunk plans: from a law, a budget and the task graph of `map_overlap` to chunk sizes.
//!
//! Constraints: pure; reads and prints nothing; the law comes in as a closure, so any law will do.
//!
//! [`recommend`](fn@recommend) tries every grid of ⌈n/k⌉ chunks, predicts the peak of a worker and
//! the time for each, and takes the fastest whose workers stay under the budget. The operator's
//! result is taken to be reduced or stored by the task that made it: sources and halos are what a
//! worker retains.

mod answer;
mod candidate;
pub mod chooser;
mod compare;
mod cuts;
mod device;
mod error;
mod extra;
pub(crate) mod frontier;
pub(crate) mod grid;
mod longest;
mod options;
mod process;
mod recommend;
mod render;
mod request;
pub(crate) mod search;
mod slow;
pub(crate) mod source;
pub(crate) mod time;
pub(crate) mod why;
pub(crate) mod worker_bytes;
pub(crate) mod workers;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Choice, Compared, Plan, Refusal};
pub use chooser::ChunkChooser;
pub use compare::BaselineChunks;
pub use cuts::{Cut, chunk_shapes};
pub use device::{Bound, DevicePlan};
pub use error::PlanError;
pub use extra::{Counted, Extra};
pub use longest::{Longest, Reach, longest};
pub use options::Options;
pub use process::{PAUSE, Process, SPILL, budget_fraction, recorded_bytes};
pub use recommend::{recommend, recommend_workers};
pub use render::Target;
pub use request::{Device, Minimise, Request, Source};
pub use slow::{SlowMemory, SlowPlan};
pub use worker_bytes::CONTEXT_BYTES;
pub use workers::{Tried, Workers};
