//! What laws are made of: how runs are aligned, which forms their sizes take, and how both are
//! evaluated.

pub mod align;
pub mod bounded;
pub mod course;
pub mod fold;
pub mod form;
pub mod heap;
pub mod search;
pub mod sequence;
pub mod size;

pub use form::{Factor, Form, Rule};
pub use sequence::{Peak, Sequence};
pub use size::{Seen, Size};

/// Fewest distinct shapes a law is fitted on.
pub const MIN_SHAPES: usize = 3;
