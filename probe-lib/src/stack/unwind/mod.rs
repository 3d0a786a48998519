//! Unwinding by the rules of `.eh_frame`, exact for every program counter that they cover.

pub mod cache;
mod cfi;
pub mod reads;
pub mod rules;
pub mod walk;
