//! Where the program called the probe.

use crate::arch::entry::Entry;

/// The function that called the probe.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// Where it goes on.
    pub address: usize,
    /// Its stack pointer then.
    pub sp: usize,
}

impl Caller {
    /// The one that an exported function was called by.
    #[inline(always)]
    pub fn of(entry: Entry) -> Caller {
        Caller { address: entry.address(), sp: entry.sp() }
    }
}
