//! What unwinding knows of the registers.

/// DWARF's number of the frame pointer, x29.
pub const FRAME_POINTER: u8 = 29;
/// DWARF's number of the stack pointer.
pub const STACK_POINTER: u8 = 31;
/// DWARF's number of the column for the return address, x30.
pub const RETURN_ADDRESS: u8 = 30;

/// Where a frame's return address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Link {
    /// In its register: the function has saved nothing yet, or calls no other.
    InRegister = 0,
    /// At this many bytes from the CFA.
    AtCfa(i32),
}

impl Link {
    /// In its register.
    pub const IN_REGISTER: Option<Link> = Some(Link::InRegister);
    /// Of a frame whose return address is not needed.
    pub const NONE: Link = Link::InRegister;

    /// At this many bytes from the CFA; `None` where no code keeps it.
    pub fn at_cfa(offset: i64) -> Option<Link> {
        i32::try_from(offset).ok().map(Link::AtCfa)
    }

    /// False if it is in its register: then the function may have no part of the stack.
    #[inline(always)]
    pub fn is_on_stack(self) -> bool {
        matches!(self, Link::AtCfa(_))
    }

    /// The return address; `word` reads from the stack.
    #[inline]
    pub fn follow(
        self,
        cfa: usize,
        register: LinkRegister,
        word: impl FnOnce(usize) -> Option<u64>,
    ) -> Option<usize> {
        match self {
            Link::InRegister => register.0,
            Link::AtCfa(offset) => Some(word(cfa.wrapping_add_signed(offset as isize))? as usize),
        }
    }
}

/// What unwinding knows of the register for the return address.
#[derive(Clone, Copy)]
pub struct LinkRegister(Option<usize>);

impl LinkRegister {
    /// That of a function that has called another.
    pub const LOST: LinkRegister = LinkRegister(None);

    /// That of a function that was interrupted by a signal; `word` reads what the kernel saved.
    pub fn interrupted(sp: usize, word: impl FnOnce(usize) -> Option<u64>) -> Option<LinkRegister> {
        Some(LinkRegister(Some(word(sp.wrapping_add(saved::LINK))? as usize)))
    }
}

/// What the kernel saves of an interrupted function, from the stack pointer of the code that a
/// signal handler returns to: there lies a `siginfo_t`, and behind it a `ucontext_t`
/// (asm/sigcontext.h).
pub mod saved {
    const SIGINFO: usize = 128;
    const REGISTERS: usize = SIGINFO + 184;
    /// The frame pointer.
    pub const BP: usize = REGISTERS + 29 * 8;
    /// The return address.
    pub const LINK: usize = REGISTERS + 30 * 8;
    /// The stack pointer.
    pub const SP: usize = REGISTERS + 31 * 8;
    /// The address of the instruction.
    pub const IP: usize = REGISTERS + 32 * 8;
}

/// True if the code at an address is what a signal handler returns to. The kernel's vDSO does not
/// describe it; its two instructions are part of the interface with programs.
///
/// # Safety
/// The byte before the address is of code that is mapped.
pub unsafe fn returns_from_signal(address: usize) -> bool {
    /// `mov x8, 139` (rt_sigreturn), `svc 0`.
    const CODE: [u32; 2] = [0xd280_1168, 0xd400_0001];
    /// The smallest: what lies behind a call that ends one may not be mapped.
    const PAGE: usize = 4096;
    let code = address as *const u32;
    // SAFETY: the first word is on the page of the byte before. Only code that the kernel has made
    // begins so, and the second belongs to it.
    address.is_multiple_of(4)
        && !address.is_multiple_of(PAGE)
        && unsafe { code.read() == CODE[0] && code.add(1).read() == CODE[1] }
}
