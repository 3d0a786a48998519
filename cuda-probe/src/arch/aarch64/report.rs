//! Functions whose call is reported and passed on.

/// The code of a function of five arguments: calls `block` with them and jumps to what `find`
/// returns, with the same again, unless that is null.
macro_rules! report_code {
    ($block:path, $find:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "hint 34",
            "stp x29, x30, [sp, -64]!",
            ".cfi_def_cfa_offset 64",
            ".cfi_offset x29, -64",
            ".cfi_offset x30, -56",
            "mov x29, sp",
            "stp x0, x1, [sp, 16]",
            "stp x2, x3, [sp, 32]",
            "str x4, [sp, 48]",
            "bl {block}",
            "bl {find}",
            "mov x16, x0",
            "ldp x0, x1, [sp, 16]",
            "ldp x2, x3, [sp, 32]",
            "ldr x4, [sp, 48]",
            "ldp x29, x30, [sp], 64",
            ".cfi_restore x29",
            ".cfi_restore x30",
            ".cfi_def_cfa_offset 0",
            "cbz x16, 2f",
            "br x16",
            "2: ret",
            ".cfi_endproc",
            block = sym $block,
            find = sym $find,
        )
    };
}
pub(crate) use report_code;
