//! C++ operators. They may throw, and no exception may pass through Rust, so what calls them is
//! assembly with its unwind rule.

/// Assembly around a call that would lose the operator's arguments: a size or a
/// block, an alignment, a tag.
macro_rules! with_arguments_kept {
    ($call:literal) => {
        concat!(
            "push rdi\n.cfi_adjust_cfa_offset 8\n",
            "push rsi\n.cfi_adjust_cfa_offset 8\n",
            "push rdx\n.cfi_adjust_cfa_offset 8\n",
            $call,
            "\npop rdx\n.cfi_adjust_cfa_offset -8",
            "\npop rsi\n.cfi_adjust_cfa_offset -8",
            "\npop rdi\n.cfi_adjust_cfa_offset -8",
        )
    };
}
pub(crate) use with_arguments_kept;

/// The code of an `operator new`: calls `next` (a pointer) and then `made` with the block, the size
/// and the [`Entry`](super::entry::Entry) if `recorded` (a byte) is not 0, else jumps to it.
/// `find_again` sets the pointer where it is null.
macro_rules! new_code {
    ($next:path, $recorded:path, $find_again:path, $made:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "cmp qword ptr [rip + {next}], 0",
            "je 3f",
            "2: cmp byte ptr [rip + {recorded}], 0",
            "jne 4f",
            "jmp qword ptr [rip + {next}]",
            // Not known yet: look the definitions up, with the arguments kept.
            "3:",
            $crate::arch::operators::with_arguments_kept!("call {find_again}"),
            "jmp 2b",
            "4: push rdi",
            ".cfi_adjust_cfa_offset 8",
            "call qword ptr [rip + {next}]",
            "pop rsi",
            ".cfi_adjust_cfa_offset -8",
            "mov rdi, rax",
            "mov rdx, rsp",
            "mov rcx, rbp",
            "jmp {made}",
            ".cfi_endproc",
            next = sym $next,
            recorded = sym $recorded,
            find_again = sym $find_again,
            made = sym $made,
        )
    };
}
pub(crate) use new_code;

/// The code of an `operator delete`: jumps to `next` (a pointer) if that is set and `recorded` (a
/// byte) is 0; else calls `release` with the block and the pointer, `next`, and `released`.
macro_rules! delete_code {
    ($next:path, $recorded:path, $release:path, $released:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "cmp qword ptr [rip + {next}], 0",
            "je 3f",
            "cmp byte ptr [rip + {recorded}], 0",
            "jne 3f",
            "jmp qword ptr [rip + {next}]",
            "3:",
            $crate::arch::operators::with_arguments_kept!("lea rsi, [rip + {next}]\ncall {release}"),
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "call qword ptr [rip + {next}]",
            "add rsp, 8",
            ".cfi_adjust_cfa_offset -8",
            "jmp {released}",
            ".cfi_endproc",
            next = sym $next,
            recorded = sym $recorded,
            release = sym $release,
            released = sym $released,
        )
    };
}
pub(crate) use delete_code;
