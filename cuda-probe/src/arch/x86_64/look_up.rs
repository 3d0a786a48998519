//! The dynamic linker's look-up.

/// The code of a `dlsym`: where the name does not begin with `cu`, jumps to `next` (a pointer) if
/// that is set; else calls `answer` with the same arguments, which returns in two registers whether
/// it knows the address, and either that or where to jump to.
macro_rules! look_up_code {
    ($next:path, $answer:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "test rsi, rsi",
            "jz 2f",
            "cmp byte ptr [rsi], 'c'",
            "jne 2f",
            "cmp byte ptr [rsi + 1], 'u'",
            "je 3f",
            "2: mov rax, qword ptr [rip + {next}]",
            "test rax, rax",
            "jz 3f",
            "jmp rax",
            // Perhaps one of the driver's, or the next definition is not known yet.
            "3: push rdi",
            ".cfi_adjust_cfa_offset 8",
            "push rsi",
            ".cfi_adjust_cfa_offset 8",
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "call {answer}",
            "add rsp, 8",
            ".cfi_adjust_cfa_offset -8",
            "pop rsi",
            ".cfi_adjust_cfa_offset -8",
            "pop rdi",
            ".cfi_adjust_cfa_offset -8",
            "test al, al",
            "jnz 4f",
            "jmp rdx",
            "4: mov rax, rdx",
            "ret",
            ".cfi_endproc",
            next = sym $next,
            answer = sym $answer,
        )
    };
}
pub(crate) use look_up_code;
