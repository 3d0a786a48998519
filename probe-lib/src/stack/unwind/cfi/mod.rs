//! The unwinding rule of one program counter, from a mapped module's `.eh_frame_hdr` and
//! `.eh_frame` (Linux Standard Base, "Exception Frames"; DWARF 4, section 6.4). Reads what is
//! mapped, allocates nothing, and stops at whatever it does not know: such a rule is
//! [`Cfa::Unknown`].
//!
//! Unwinding needs three registers: the stack pointer (in the caller: the CFA), the frame pointer
//! and the return address.

mod bytes;
mod description;
mod program;

use self::bytes::Bytes;
use self::description::{Common, read, search};
use self::program::Program;
use crate::arch::unwind::{Link, returns_from_signal};

/// How to go from a frame to its caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Where the caller's part of the stack begins.
    pub cfa: Cfa,
    /// Where the caller's frame pointer is.
    pub bp: Saved,
    /// Where the return address is.
    pub link: Link,
}

/// The canonical frame address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Cfa {
    /// Not known, or in a way that no compiler writes at a call.
    Unknown = 0,
    /// There is no caller: the thread began here.
    End,
    /// The return path of a signal handler: at the stack pointer lies what the kernel has saved of
    /// the function that it interrupted.
    Signal,
    /// Stack pointer and this many bytes.
    Sp(i32),
    /// Frame pointer and this many bytes.
    Bp(i32),
    /// What lies at this many bytes from the frame pointer (functions that align their stack).
    AtBp(i32),
    /// A procedure linkage table of x86-64: 8 above the stack pointer, 16 from this byte of each
    /// entry on.
    Plt(i32),
}

/// Where a register of the caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Saved {
    /// Where it was.
    Same = 0,
    /// At this many bytes from the CFA.
    AtCfa(i32),
    /// At this many bytes from the frame pointer.
    AtBp(i32),
    /// Gone, or in another way.
    Lost,
}

impl Rule {
    /// No rule.
    pub const UNKNOWN: Rule = Rule { cfa: Cfa::Unknown, bp: Saved::Lost, link: Link::NONE };

    /// Of code that has no description. Where there is a register for the return address, it is that
    /// of a stub which a linker has made, and has saved nothing.
    pub fn undescribed() -> Rule {
        match Link::IN_REGISTER {
            Some(link) => Rule { cfa: Cfa::Sp(0), bp: Saved::Same, link },
            None => Rule::UNKNOWN,
        }
    }
}

/// The rule of a program counter in the module whose `.eh_frame_hdr` is at `index`; 0: it has none,
/// as the vDSO of Arm's kernels.
///
/// # Safety
/// The module is mapped, and `index` is 0 or where its program header says.
pub unsafe fn rule(index: usize, counter: usize) -> Rule {
    // SAFETY: as the caller promises. A program counter that is no code's, which a walk may come to by
    // a register that a signal has found in other use, lies in a module by chance only.
    unsafe {
        if returns_from_signal(counter.wrapping_add(1)) {
            return Rule { cfa: Cfa::Signal, ..Rule::UNKNOWN };
        }
        if index == 0 {
            return Rule::undescribed();
        }
        let Some((begin, common, instructions)) = find(index, counter) else { return Rule::undescribed() };
        Program::new(&common, begin).row(instructions, counter).unwrap_or(Rule::UNKNOWN)
    }
}

unsafe fn find(index: usize, counter: usize) -> Option<(usize, Common, Bytes)> {
    // SAFETY: the caller's module; its tables are where they say.
    unsafe {
        let (begin, description) = search(index, counter)?;
        let (common, instructions) = read(begin, description, counter)?;
        Some((begin, common, instructions))
    }
}
