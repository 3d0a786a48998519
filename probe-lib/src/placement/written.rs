//! Whether a block is written: a few of its pages go to swap, and come back when the program accesses
//! them. As long as they are in swap, or clean, the program has not written them. (A page that was
//! written once stays dirty, so all of a block would have to go each time.) Where the kernel swaps
//! pages by itself, what is written may be missed.

use super::swap;
use crate::sys;

/// Spread over what there is of the block.
const PAGES: usize = 4;

/// What the kernel says of a block: bytes of its pages.
#[derive(Clone, Copy)]
pub struct Pages {
    /// In memory or in swap. The rest was never touched.
    pub touched: usize,
    /// In swap, or as they came from there.
    pub unwritten: usize,
}

impl Pages {
    pub const NONE: Pages = Pages { touched: 0, unwritten: 0 };

    /// Whether the block was written since its pages were [sent](Pages::send) to swap: at least half of
    /// them.
    pub fn are_written(self) -> bool {
        self.unwritten <= PAGES * sys::page() / 2
    }

    /// Sends some of the block that begins here to swap, unless all of them are still there or clean.
    pub fn send(self, begins: usize) {
        if self.unwritten >= PAGES * sys::page() {
            return;
        }
        // Programs fill blocks from the front.
        let pages = self.touched / sys::page();
        for each in 0..PAGES {
            // In the middle of each part.
            let page = pages * (2 * each + 1) / (2 * PAGES);
            swap::send(begins + page * sys::page(), sys::page());
        }
    }
}
