//! Large blocks in the memory that the tracer's plan names.
//!
//! Only where blocks of this image are to be placed, functions of [`front`] take the places of the
//! next definitions; without a plan nothing of this is ever executed. The [`plan`] says which tier
//! the next block gets. A block that gets one is no block of the C library's: it has a mapping of
//! its own ([`mapping`], [`tier`]), which [`own`] finds again when it is released. Its pages may go to
//! the slow tier and come back ([`paging`]: to [`swap`], or between [`nodes`]); while a program is
//! learned, [`watch`] says which of its blocks it uses when.
//!
//! What is left alone: other allocators than the C library's, forked children (they release what
//! they inherit), and blocks that `realloc`, `valloc` and `pvalloc` make.

mod budget;
mod flush;
mod front;
mod lock;
mod mapping;
mod nodes;
mod own;
mod paging;
mod plan;
mod retained;
mod swap;
mod tier;
mod watch;
mod written;

use memtrace_wire::placement::Placement;

use crate::allocator;

/// Places blocks from now on.
pub fn begin(placement: &Placement, words: &'static [u64]) {
    if allocator::is_the_c_library() && own::begin() && plan::begin(placement, words) {
        budget::begin(placement);
        if placement.watch != 0 {
            watch::begin();
        }
        front::put_before();
    }
}

/// The process is about to end.
pub fn end() {
    watch::look_at_the_end();
}
