//! Functions that leave no frame on the stack.

/// Defines a function that passes its argument to `$first`, an `extern "C" fn` that returns a
/// function and its argument in two registers, and jumps on to that.
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

/// The instruction that jumps to a function named `{}`.
macro_rules! jump {
    () => {
        "jmp {}"
    };
}
pub(crate) use jump;
