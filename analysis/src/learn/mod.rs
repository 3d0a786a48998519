//! Learning while programs run: laws that take in what their operators needed, and forecasts of
//! spans that still run.
//!
//! Constraints: pure; no clock, no randomness. An observation costs microseconds.

pub mod observe;
pub mod progress;

pub use observe::{Observation, Observed};
pub use progress::{Forecast, Tracker};

#[cfg(test)]
mod tests;
