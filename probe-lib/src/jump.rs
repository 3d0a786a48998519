//! Doing something in front of a function that somebody else calls, without staying on the stack below it.

use core::ffi::c_void;

/// A function and its argument: two registers.
#[repr(C)]
pub struct Start {
    /// Where it begins.
    pub function: *mut c_void,
    /// Its only argument.
    pub argument: *mut c_void,
}

/// Defines a function that hands its argument to `$take` and jumps on to what that returns, an `extern "C" fn` that gives a
/// [`Start`].
macro_rules! jump_after {
    ($name:ident, $take:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "call {take}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "mov rdi, rdx",
                "jmp rax",
                ".cfi_endproc",
                take = sym $take,
            )
        }
    };
}
pub(crate) use jump_after;
