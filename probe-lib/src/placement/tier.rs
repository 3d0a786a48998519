//! What the kernel is told of a mapping.

use memtrace_wire::placement::Tier;

use crate::sys::{self, syscall};

/// Bytes of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// What a block has to be aligned to in a tier; `None` if it is too small for it.
pub fn alignment(tier: Tier, bytes: usize) -> Option<usize> {
    match tier {
        Tier::HugePages => (bytes >= HUGE_PAGE).then_some(HUGE_PAGE),
        Tier::Dram if bytes >= HUGE_PAGE => Some(HUGE_PAGE),
        Tier::SmallPages | Tier::Dram | Tier::Node(_) => Some(sys::page()),
    }
}

/// Tells the kernel where the pages of a mapping are to come from, before there are any. Returns the
/// errno of a refusal, or 0.
pub fn choose(tier: Tier, start: usize, length: usize) -> i32 {
    let advise = |advice: i32| refused(libc::SYS_madvise, [start, length, advice as usize, 0, 0, 0]);
    match tier {
        Tier::SmallPages => advise(libc::MADV_NOHUGEPAGE),
        Tier::HugePages => advise(libc::MADV_HUGEPAGE),
        Tier::Dram => 0,
        Tier::Node(node) => prefer(node, start, length, 0),
    }
}

/// Moves the pages that there are to a node; those that come later come from there. Returns the errno
/// of a refusal, or 0: EIO if some pages have stayed where they were.
pub fn move_to(node: u8, start: usize, length: usize) -> i32 {
    const MPOL_MF_STRICT: usize = 1;
    const MPOL_MF_MOVE: usize = 2;
    split(start);
    split(start + length);
    prefer(node, start, length, MPOL_MF_MOVE | MPOL_MF_STRICT)
}

/// Splits the huge page around a place, if there is one: it would move as a whole. Advice on a part of it
/// does so (MADV_COLD).
fn split(at: usize) {
    if !at.is_multiple_of(HUGE_PAGE) {
        refused(libc::SYS_madvise, [at, 1, libc::MADV_COLD as usize, 0, 0, 0]);
    }
}

/// Preferred, not bound (set_mempolicy(2)): a full node must not end the program.
fn prefer(node: u8, start: usize, length: usize, flags: usize) -> i32 {
    const MPOL_PREFERRED: usize = 1;
    let mask = (1u128 << (node % Tier::NODES)).to_le_bytes();
    let bits = mask.len() * 8 + 1;
    refused(libc::SYS_mbind, [start, length, MPOL_PREFERRED, mask.as_ptr() as usize, bits, flags])
}

fn refused(number: libc::c_long, arguments: [usize; 6]) -> i32 {
    // SAFETY: advice on a mapping of our own; it changes no content.
    let result = unsafe { syscall(number, arguments) };
    if result < 0 { -result as i32 } else { 0 }
}
