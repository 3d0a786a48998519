//! Exported functions that say where the program called them. Stable Rust can read neither its own
//! return address nor the registers it was called with, so the functions that the program calls are
//! a few instructions that pass them on as an [`Entry`].

/// What an exported function was called with.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The stack pointer: there lies the return address.
    sp: *const usize,
    /// The frame pointer.
    bp: usize,
}

impl Entry {
    /// Where the program goes on.
    #[inline(always)]
    pub fn address(self) -> usize {
        // SAFETY: the stack of a function that has not returned.
        unsafe { *self.sp }
    }

    /// The caller's stack pointer before the call.
    #[inline(always)]
    pub fn sp(self) -> usize {
        self.sp.wrapping_add(1) as usize
    }

    /// The caller's frame pointer.
    #[inline(always)]
    pub fn bp(self) -> usize {
        self.bp
    }
}

/// Exported functions that go on to another with an [`Entry`] as its last argument.
macro_rules! entered {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty => $to:ident;)*) => {
        $(
            $(#[$attribute])*
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                $crate::arch::entry::passed_on!($to $($argument)*)
            }
        )*
    };
}
pub(crate) use entered;

/// The instructions of such a function, by the number of its arguments: the entry comes in the
/// registers after theirs. After five or six arguments it lies on the stack.
macro_rules! passed_on {
    ($to:ident $a:ident) => {
        $crate::arch::entry::passed_on_in!("rsi", "rdx", $to)
    };
    ($to:ident $a:ident $b:ident) => {
        $crate::arch::entry::passed_on_in!("rdx", "rcx", $to)
    };
    ($to:ident $a:ident $b:ident $c:ident) => {
        $crate::arch::entry::passed_on_in!("rcx", "r8", $to)
    };
    ($to:ident $a:ident $b:ident $c:ident $d:ident) => {
        $crate::arch::entry::passed_on_in!("r8", "r9", $to)
    };
    ($to:ident $($argument:ident)*) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "mov rax, rsp",
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "push rbp",
            ".cfi_adjust_cfa_offset 8",
            "push rax",
            ".cfi_adjust_cfa_offset 8",
            "call {to}",
            "add rsp, 24",
            ".cfi_adjust_cfa_offset -24",
            "ret",
            ".cfi_endproc",
            to = sym $to,
        )
    };
}
pub(crate) use passed_on;

/// In these registers, by a jump.
macro_rules! passed_on_in {
    ($sp:literal, $bp:literal, $to:ident) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            concat!("mov ", $sp, ", rsp"),
            concat!("mov ", $bp, ", rbp"),
            "jmp {to}",
            ".cfi_endproc",
            to = sym $to,
        )
    };
}
pub(crate) use passed_on_in;
