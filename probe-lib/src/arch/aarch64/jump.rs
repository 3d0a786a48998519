//! Functions that leave no frame on the stack.

/// Defines a function that passes its argument to `$first`, an `extern "C" fn` that returns a
/// function and its argument in two registers, and jumps on to that. By x16, from which `bti c`
/// may be jumped to.
macro_rules! jump_after {
    ($name:ident, $first:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint 34",
                "stp x29, x30, [sp, -16]!",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset x29, -16",
                ".cfi_offset x30, -8",
                "mov x29, sp",
                "bl {first}",
                "ldp x29, x30, [sp], 16",
                ".cfi_restore x29",
                ".cfi_restore x30",
                ".cfi_def_cfa_offset 0",
                "mov x16, x0",
                "mov x0, x1",
                "br x16",
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
        "b {}"
    };
}
pub(crate) use jump;
