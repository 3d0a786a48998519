//! Where the program called the probe. Stable Rust can ask neither for its own return address nor for the registers
//! it was called with, so the functions that the program calls are a few instructions that pass them on.

use crate::unwind::Caller;

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

/// Exported functions that jump on to another with an [`Entry`] as its last argument, in the registers that come after
/// the arguments before it.
macro_rules! entered {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty, $sp:literal, $bp:literal => $to:ident;)*) => {
        $(
            $(#[$attribute])*
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    concat!("mov ", $sp, ", rsp"),
                    concat!("mov ", $bp, ", rbp"),
                    "jmp {to}",
                    ".cfi_endproc",
                    to = sym $to,
                )
            }
        )*
    };
}
pub(crate) use entered;

/// The same for functions of five and six arguments: it lies on the stack.
macro_rules! entered_on_stack {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty => $to:ident;)*) => {
        $(
            $(#[$attribute])*
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
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
            }
        )*
    };
}
pub(crate) use entered_on_stack;
