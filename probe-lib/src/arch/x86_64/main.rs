//! Around the program's `main`.

/// Defines a function that calls `main` (a pointer) with its own arguments, notes at `hidden` where
/// `main` returns to, and calls `ended` when it has.
macro_rules! around_main {
    ($name:ident, $hidden:path, $main:path, $ended:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 24",
                ".cfi_adjust_cfa_offset 24",
                "lea rax, [rip + 2f]",
                "mov [rip + {hidden}], rax",
                "call [rip + {main}]",
                "2:",
                "mov [rsp], eax",
                "call {ended}",
                "mov eax, [rsp]",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
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
