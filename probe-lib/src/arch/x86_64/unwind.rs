//! What unwinding knows of the registers.

/// DWARF's number of the frame pointer, rbp.
pub const FRAME_POINTER: u8 = 6;
/// DWARF's number of the stack pointer, rsp.
pub const STACK_POINTER: u8 = 7;
/// DWARF's number of the column for the return address.
pub const RETURN_ADDRESS: u8 = 16;

/// Where a frame's return address is: code keeps it right below the CFA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link;

impl Link {
    /// In its register: there is none.
    pub const IN_REGISTER: Option<Link> = None;
    /// Of a frame whose return address is not needed.
    pub const NONE: Link = Link;

    /// At this many bytes from the CFA; `None` where no code keeps it.
    pub fn at_cfa(offset: i64) -> Option<Link> {
        (offset == -8).then_some(Link)
    }

    /// False if it is in its register: then the function may have no part of the stack.
    #[inline(always)]
    pub fn is_on_stack(self) -> bool {
        true
    }

    /// The return address; `word` reads from the stack.
    #[inline(always)]
    pub fn follow(
        self,
        cfa: usize,
        _: LinkRegister,
        word: impl FnOnce(usize) -> Option<u64>,
    ) -> Option<usize> {
        Some(word(cfa.wrapping_sub(8))? as usize)
    }
}

/// What unwinding knows of a register for the return address.
#[derive(Clone, Copy)]
pub struct LinkRegister;

impl LinkRegister {
    /// That of a function that has called another.
    pub const LOST: LinkRegister = LinkRegister;

    /// That of a function that was interrupted by a signal; `word` reads what the kernel saved.
    pub fn interrupted(_: usize, _: impl FnOnce(usize) -> Option<u64>) -> Option<LinkRegister> {
        Some(LinkRegister)
    }
}

/// What the kernel saves of an interrupted function, from the stack pointer of the code that a
/// signal handler returns to: there lies a `ucontext_t` (sys/ucontext.h).
pub mod saved {
    /// The frame pointer.
    pub const BP: usize = 120;
    /// The stack pointer.
    pub const SP: usize = 160;
    /// The address of the instruction.
    pub const IP: usize = 168;
}

/// True if the code at an address is what a signal handler returns to: that has a description here.
///
/// # Safety
/// The address is of code that is mapped.
pub unsafe fn returns_from_signal(_: usize) -> bool {
    false
}
