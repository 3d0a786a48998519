//! Where the program called the probe.

/// The function that called the probe.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// Where it goes on.
    pub address: usize,
    /// Its stack pointer then.
    pub sp: usize,
}

/// What an exported function was called with.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The stack pointer: there lies the return address.
    sp: *const usize,
    /// The frame pointer.
    pub bp: usize,
}

impl Entry {
    /// Where the program goes on.
    #[inline(always)]
    pub fn address(self) -> usize {
        // SAFETY: the stack of a function that has not returned.
        unsafe { *self.sp }
    }

    /// The frame that called.
    #[inline(always)]
    pub fn caller(self) -> Caller {
        Caller { address: self.address(), sp: self.sp.wrapping_add(1) as usize }
    }
}
