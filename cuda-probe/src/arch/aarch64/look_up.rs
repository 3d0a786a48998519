//! The dynamic linker's look-up.

/// The code of a `dlsym`: where the name does not begin with `cu`, jumps to `next` (a pointer) if
/// that is set; else calls `answer` with the same arguments, which returns in two registers whether
/// it knows the address, and either that or where to jump to. By x16, from which `bti c` may be
/// jumped to.
macro_rules! look_up_code {
    ($next:path, $answer:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "hint 34",
            "cbz x1, 2f",
            "ldrb w16, [x1]",
            "cmp w16, 'c'",
            "b.ne 2f",
            "ldrb w16, [x1, 1]",
            "cmp w16, 'u'",
            "b.eq 3f",
            "2: adrp x16, {next}",
            "ldr x16, [x16, :lo12:{next}]",
            "cbz x16, 3f",
            "br x16",
            // Perhaps one of the driver's, or the next definition is not known yet.
            "3: stp x29, x30, [sp, -32]!",
            ".cfi_def_cfa_offset 32",
            ".cfi_offset x29, -32",
            ".cfi_offset x30, -24",
            "mov x29, sp",
            "stp x0, x1, [sp, 16]",
            "bl {answer}",
            "tst w0, 0xff",
            "mov x16, x1",
            "ldp x0, x1, [sp, 16]",
            "ldp x29, x30, [sp], 32",
            ".cfi_restore x29",
            ".cfi_restore x30",
            ".cfi_def_cfa_offset 0",
            "b.ne 4f",
            "br x16",
            "4: mov x0, x16",
            "ret",
            ".cfi_endproc",
            next = sym $next,
            answer = sym $answer,
        )
    };
}
pub(crate) use look_up_code;
