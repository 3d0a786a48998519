//! Exported functions that say where the program called them. Stable Rust can read neither its own
//! return address nor the registers it was called with, so the functions that the program calls are
//! a few instructions that pass them on as an [`Entry`](crate::stack::entry::Entry).

/// Exported functions that jump on to another with an [`Entry`] as its last argument, in the
/// registers that come after the arguments before it.
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
