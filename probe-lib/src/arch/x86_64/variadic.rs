//! Variadic functions.

/// A variadic function of the exec family: the arguments after the path lie in five registers and
/// on the stack. Pushing the five below those on the stack makes an array of them all,
/// NULL-terminated by the caller. The return address, which lies in between, is saved below the
/// array and restored.
macro_rules! variadic {
    ($($(#[$doc:meta])* $name:ident => $with_array:ident;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() -> core::ffi::c_int {
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    "pop rax",
                    "push r9",
                    "push r8",
                    "push rcx",
                    "push rdx",
                    "push rsi",
                    "push rax",
                    // The return address is 48 bytes below where the call had put it.
                    ".cfi_def_cfa_offset 48",
                    ".cfi_offset rip, -48",
                    "lea rsi, [rsp + 8]",
                    "call {with_array}",
                    "pop rcx",
                    "add rsp, 40",
                    "push rcx",
                    "ret",
                    ".cfi_endproc",
                    with_array = sym $with_array,
                )
            }
        )*
    };
}
pub(crate) use variadic;
