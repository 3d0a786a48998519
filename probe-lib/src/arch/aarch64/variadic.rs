//! Variadic functions.

/// A variadic function of the exec family: the arguments after the path lie in seven registers and
/// on the stack. Storing the seven right below those on the stack makes an array of them all,
/// NULL-terminated by the caller.
macro_rules! variadic {
    ($($(#[$doc:meta])* $name:ident => $with_array:ident;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() -> core::ffi::c_int {
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    "hint 34",
                    "stp x29, x30, [sp, -80]!",
                    ".cfi_def_cfa_offset 80",
                    ".cfi_offset x29, -80",
                    ".cfi_offset x30, -72",
                    "mov x29, sp",
                    "str x1, [sp, 24]",
                    "stp x2, x3, [sp, 32]",
                    "stp x4, x5, [sp, 48]",
                    "stp x6, x7, [sp, 64]",
                    "add x1, sp, 24",
                    "bl {with_array}",
                    "ldp x29, x30, [sp], 80",
                    ".cfi_restore x29",
                    ".cfi_restore x30",
                    ".cfi_def_cfa_offset 0",
                    "ret",
                    ".cfi_endproc",
                    with_array = sym $with_array,
                )
            }
        )*
    };
}
pub(crate) use variadic;
