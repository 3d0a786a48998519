//! Pages that move between two nodes. Of a block, the first pages are those in the fast one: what moves
//! out are the last of them, what moves in are those behind them. A move of any other pages, or of more
//! than the fast tier has room for, is not made.

use memtrace_wire::placement::Tier;

use super::mapping::Mapping;
use super::{budget, own, retained, tier};

/// A range that was moved.
pub struct Moved {
    /// Where it begins.
    pub start: usize,
    /// Its bytes.
    pub length: usize,
    /// Of what the kernel refused, or 0.
    pub errno: i32,
}

/// Moves the fast pages of a block from an offset on to the slow node, if they are the last before the
/// other.
pub fn out(block: &Mapping, first: usize, end: usize, slow: u8) -> Option<Moved> {
    let length = block.fast.checked_sub(first).filter(|length| *length > 0 && block.fast <= end)?;
    // Before it moves: a block that is released meanwhile must not be retained as one of the fast node.
    if !own::change_fast(block, first) {
        return None;
    }
    let start = block.start + first;
    let errno = tier::move_to(slow, start, length);
    let stays = errno != 0 && own::change_fast(&Mapping { fast: first, ..*block }, block.fast);
    if !stays {
        budget::give_back(block.tier, length);
    }
    Some(Moved { start, length, errno })
}

/// Moves the pages behind its fast ones to the fast node, up to an offset, if the first one is there.
pub fn back(block: &Mapping, first: usize, end: usize, fast: u8) -> Option<Moved> {
    let length = end.checked_sub(block.fast).filter(|length| *length > 0 && first <= block.fast)?;
    if !retained::make_room(Tier::Node(fast), length) {
        return None;
    }
    if !own::change_fast(block, end) {
        budget::give_back(block.tier, length);
        return None;
    }
    let start = block.start + block.fast;
    Some(Moved { start, length, errno: tier::move_to(fast, start, length) })
}
