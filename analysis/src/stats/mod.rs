//! Statistics: regressions on a few runs, and what further observations say about them.

pub mod posterior;
pub mod random;
pub mod regression;
mod student;
