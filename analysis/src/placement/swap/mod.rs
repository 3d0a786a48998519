//! Memory and swap as two tiers: which pages of which blocks go to swap when, so that a program takes
//! less memory and little more time.
//!
//! A run that was watched says which blocks the program uses between one large allocation and the next
//! ([`steps`], in an [`order`] that other turns tell). What is needed last goes first ([`schedule`]). What the kernel would move by itself
//! ([`lru`]) is what it is compared with; what a page costs, the [`machine`] says. The [`paged`] plan
//! has the moves before each block.

mod held;
mod lru;
mod machine;
mod order;
mod paged;
mod retained;
mod schedule;
mod steps;
#[cfg(test)]
mod tests;

pub use held::most_held;
pub use machine::{Content, MACHINE_VERSION, Machine};
pub use paged::Paged;

use super::plan::Moved;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Pages of a block's mapping.
fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE)
}

/// Pages that were moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pages {
    /// To swap, where they have to be written.
    pub written: u64,
    /// To swap, where they are still as they came from it.
    pub clean: u64,
    /// Back to memory.
    pub back: u64,
    /// New ones, for blocks that would have been given pages of released ones.
    pub fresh: u64,
}

impl Pages {
    fn moved(&self) -> Moved {
        Moved { written_bytes: self.written * PAGE, back_bytes: self.back * PAGE }
    }
}
