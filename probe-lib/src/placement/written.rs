//! Whether a block is written: a few of its pages go to swap, and come back when the program accesses
//! them. As long as they are in swap, or clean, the program has not written them. (A page that was
//! written once stays dirty, so all of a block would have to go each time.)

use super::swap;
use crate::sys;

/// Spread over the block.
const PAGES: usize = 4;

/// Whether a block was written of which so many bytes are in swap, or clean.
pub fn is(unwritten: usize) -> bool {
    unwritten < PAGES * sys::page() / 2
}

/// Has the next look find out about the block from `begins` to `end`.
pub fn tell_from_now_on(begins: usize, end: usize) {
    let pages = (end - begins) / sys::page();
    for each in 0..PAGES {
        // In the middle of each part.
        let page = pages * (2 * each + 1) / (2 * PAGES);
        swap::send(begins + page * sys::page(), sys::page());
    }
}
