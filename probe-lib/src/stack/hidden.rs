//! The one frame of the probe that outlives a call of the program: that around `main`.

use core::sync::atomic::{AtomicUsize, Ordering};

/// Where `main` returns to; 0 before it is called.
pub static FRAME: AtomicUsize = AtomicUsize::new(0);

/// True if this return address is left out of call stacks.
pub fn is(address: usize) -> bool {
    address == FRAME.load(Ordering::Relaxed)
}
