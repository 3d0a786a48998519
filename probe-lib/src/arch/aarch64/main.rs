//! Around the program's `main`.

/// Defines a function that calls `main` (a pointer) with its own arguments, notes at `hidden` where
/// `main` returns to, and calls `ended` when it has.
macro_rules! around_main {
    ($name:ident, $hidden:path, $main:path, $ended:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint 34",
                "stp x29, x30, [sp, -32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                "mov x29, sp",
                "adr x9, 2f",
                "adrp x10, {hidden}",
                "str x9, [x10, :lo12:{hidden}]",
                "adrp x10, {main}",
                "ldr x10, [x10, :lo12:{main}]",
                "blr x10",
                "2:",
                "str w0, [sp, 16]",
                "bl {ended}",
                "ldr w0, [sp, 16]",
                "ldp x29, x30, [sp], 32",
                ".cfi_restore x29",
                ".cfi_restore x30",
                ".cfi_def_cfa_offset 0",
                "ret",
                ".cfi_endproc",
                hidden = sym $hidden,
                main = sym $main,
                ended = sym $ended,
            )
        }
    };
}
pub(crate) use around_main;
