//! Learning while running: laws that take in what their operators needed, chunks that are chosen with
//! what is known so far, and forecasts of spans that still run.
//!
//! Constraints: pure; no clock, no randomness but a seeded one. An observation costs microseconds.

pub mod chooser;
pub mod learned;
pub mod observe;
pub mod posterior;
pub mod progress;
mod random;
mod student;

pub use chooser::ChunkChooser;
pub use learned::Learned;
pub use observe::{Observation, Observed};
pub use progress::{Forecast, Tracker};

#[cfg(test)]
mod tests;
