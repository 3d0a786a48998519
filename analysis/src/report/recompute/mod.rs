//! The figures that were folded while recording, derived again from the rows of `allocations`.
//!
//! Memory is bounded whatever the size of the trace ([`sweep`]).

mod compare;
mod document;
mod events;
mod kept;
mod order;
mod peaks;
mod sums;
mod sweep;
#[cfg(test)]
mod tests;

pub use compare::{Figure, Recomputed, Whom, recompute};
pub use document::{Difference, Document, Figures, ProcessFigures, SiteFigures, SpanFigures};
