//! What targets make of a fuzzer's bytes: numbers and files.

mod draw;
mod scratch;

pub use self::draw::Draw;
pub use self::scratch::{Scratch, seeds};
