//! C++ operators. They may throw, and no exception may pass through Rust, so what calls them is
//! assembly with its unwind rule.

/// A frame with room for the operator's arguments: a size or a block, an alignment, a tag.
macro_rules! arguments_kept {
    () => {
        concat!(
            "stp x29, x30, [sp, -48]!\n",
            ".cfi_def_cfa_offset 48\n.cfi_offset x29, -48\n.cfi_offset x30, -40\n",
            "mov x29, sp\n",
            "stp x0, x1, [sp, 16]\n",
            "str x2, [sp, 32]",
        )
    };
}
pub(crate) use arguments_kept;

/// The arguments again; the frame stays.
macro_rules! arguments_again {
    () => {
        "ldp x0, x1, [sp, 16]\nldr x2, [sp, 32]"
    };
}
pub(crate) use arguments_again;

/// The end of that frame.
macro_rules! frame_left {
    () => {
        "ldp x29, x30, [sp], 48\n.cfi_restore x29\n.cfi_restore x30\n.cfi_def_cfa_offset 0"
    };
}
pub(crate) use frame_left;

/// The code of an `operator new`: calls `next` (a pointer) and then `made` with the block, the size
/// and the [`Entry`](super::entry::Entry) if `recorded` (a byte) is not 0, else jumps to it.
/// `find_again` sets the pointer where it is null.
macro_rules! new_code {
    ($next:path, $recorded:path, $find_again:path, $made:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "hint 34",
            "adrp x16, {next}",
            "ldr x16, [x16, :lo12:{next}]",
            "cbz x16, 3f",
            "2: adrp x17, {recorded}",
            "ldrb w17, [x17, :lo12:{recorded}]",
            "cbnz w17, 4f",
            "br x16",
            // Not known yet: look the definitions up, with the arguments kept.
            "3:",
            $crate::arch::operators::arguments_kept!(),
            "bl {find_again}",
            $crate::arch::operators::arguments_again!(),
            $crate::arch::operators::frame_left!(),
            "adrp x16, {next}",
            "ldr x16, [x16, :lo12:{next}]",
            "b 2b",
            "4: stp x29, x30, [sp, -16]!",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset x29, -16",
            ".cfi_offset x30, -8",
            "mov x29, sp",
            "str x0, [sp, -16]!",
            ".cfi_def_cfa_offset 32",
            "blr x16",
            "ldr x1, [sp], 16",
            ".cfi_def_cfa_offset 16",
            "mov x2, sp",
            "bl {made}",
            "ldp x29, x30, [sp], 16",
            ".cfi_restore x29",
            ".cfi_restore x30",
            ".cfi_def_cfa_offset 0",
            "ret",
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
            "hint 34",
            "adrp x16, {next}",
            "ldr x16, [x16, :lo12:{next}]",
            "cbz x16, 3f",
            "adrp x17, {recorded}",
            "ldrb w17, [x17, :lo12:{recorded}]",
            "cbnz w17, 3f",
            "br x16",
            "3:",
            $crate::arch::operators::arguments_kept!(),
            "adrp x1, {next}",
            "add x1, x1, :lo12:{next}",
            "bl {release}",
            $crate::arch::operators::arguments_again!(),
            "adrp x16, {next}",
            "ldr x16, [x16, :lo12:{next}]",
            "blr x16",
            "bl {released}",
            $crate::arch::operators::frame_left!(),
            "ret",
            ".cfi_endproc",
            next = sym $next,
            recorded = sym $recorded,
            release = sym $release,
            released = sym $released,
        )
    };
}
pub(crate) use delete_code;
