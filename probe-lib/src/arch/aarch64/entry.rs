//! Exported functions that say where the program called them. Stable Rust can read neither its own
//! return address nor the registers it was called with, so the functions that the program calls are
//! a few instructions that pass them on as an [`Entry`].

/// What an exported function was called with: its frame record (AAPCS64, section 6.4.6), at the
/// top of its frame.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct Entry(*const Record);

#[repr(C)]
struct Record {
    bp: usize,
    address: usize,
}

impl Entry {
    /// Where the program goes on.
    #[inline(always)]
    pub fn address(self) -> usize {
        // SAFETY: the stack of a function that has not returned.
        unsafe { (*self.0).address }
    }

    /// The caller's stack pointer before the call.
    #[inline(always)]
    pub fn sp(self) -> usize {
        self.0.wrapping_add(1) as usize
    }

    /// The caller's frame pointer.
    #[inline(always)]
    pub fn bp(self) -> usize {
        // SAFETY: as above.
        unsafe { (*self.0).bp }
    }
}

/// Exported functions that go on to another with an [`Entry`] as its last argument.
macro_rules! entered {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty => $to:ident;)*) => {
        $(
            $(#[$attribute])*
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                $crate::arch::entry::passed_on!($to $($argument)*)
            }
        )*
    };
}
pub(crate) use entered;

/// The instructions of such a function, by the number of its arguments: the entry comes in the
/// register after theirs.
macro_rules! passed_on {
    ($to:ident $a:ident) => {
        $crate::arch::entry::passed_on_in!("x1", $to)
    };
    ($to:ident $a:ident $b:ident) => {
        $crate::arch::entry::passed_on_in!("x2", $to)
    };
    ($to:ident $a:ident $b:ident $c:ident) => {
        $crate::arch::entry::passed_on_in!("x3", $to)
    };
    ($to:ident $a:ident $b:ident $c:ident $d:ident) => {
        $crate::arch::entry::passed_on_in!("x4", $to)
    };
    ($to:ident $a:ident $b:ident $c:ident $d:ident $e:ident) => {
        $crate::arch::entry::passed_on_in!("x5", $to)
    };
    ($to:ident $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident) => {
        $crate::arch::entry::passed_on_in!("x6", $to)
    };
}
pub(crate) use passed_on;

/// In this register. `hint 34` is `bti c`.
macro_rules! passed_on_in {
    ($entry:literal, $to:ident) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "hint 34",
            "stp x29, x30, [sp, -16]!",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset x29, -16",
            ".cfi_offset x30, -8",
            concat!("mov ", $entry, ", sp"),
            "mov x29, sp",
            "bl {to}",
            "ldp x29, x30, [sp], 16",
            ".cfi_restore x29",
            ".cfi_restore x30",
            ".cfi_def_cfa_offset 0",
            "ret",
            ".cfi_endproc",
            to = sym $to,
        )
    };
}
pub(crate) use passed_on_in;
