//! Which large blocks of a program belong in fast memory, and what that gains.
//!
//! A run of a program for each tier, one with all its large blocks in the slow tier and one with all of them in
//! the fast one (and one for a tier between them), with samples of the clock ([`observed`]), say what each object gains
//! ([`gains`]). Of the objects that are live [`together`], a [`search`] chooses those that gain most and
//! fit into the fast tier, by their gains and [`traits`]. Runs with a choice may correct it
//! ([`verified`]). Where the slow tier is [`swap`], pages move while the program runs. The [`plan`] has
//! the choice, and the order of the program's blocks, by which they are found again in its next run;
//! a trace of that has what was [`placed`].

mod error;
mod file;
mod gains;
mod learned;
mod object;
mod observed;
mod placed;
mod plan;
pub mod search;
pub mod swap;
#[cfg(test)]
mod tests;
mod together;
mod traits;
mod verified;
mod windows;

pub use error::Error;
pub use learned::Learned;
pub use object::{Gained, Object, Where};
pub use placed::most_bytes;
pub use plan::{
    Alternative, MOST_BLOCKS, MOST_MOVES, Middle, Move, MoveKind, Moved, PLAN_VERSION, Plan, Program,
    Seconds, Tiers, Traffic,
};

/// Smaller blocks are no matter of placement.
pub const LEAST_BYTES: u64 = 64 << 10;
