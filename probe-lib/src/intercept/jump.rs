//! Runs code before a function that the C library or a runtime calls, without
//! leaving a frame on its stack.

use core::ffi::c_void;

/// A function and its argument: two registers.
#[repr(C)]
pub struct Start {
    /// Where it begins.
    pub function: *mut c_void,
    /// Its only argument.
    pub argument: *mut c_void,
}

/// Defines a function that passes its argument to `$first`, an `extern "C" fn` that returns a
/// [`Start`], and jumps on to that.
macro_rules! jump_after {
    ($name:ident, $first:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "call {first}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "mov rdi, rdx",
                "jmp rax",
                ".cfi_endproc",
                first = sym $first,
            )
        }
    };
}
pub(crate) use jump_after;
