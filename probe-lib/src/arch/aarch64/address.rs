//! Addresses as they lie on a stack.

use core::arch::asm;

/// A return address without what the processor has signed it with (pointer authentication). Which
/// bits these are depends on the kernel's choice; `hint 7` (`xpaclri`), which does nothing on older
/// processors, knows it.
#[inline(always)]
pub fn unsigned(mut address: usize) -> usize {
    // SAFETY: changes this register only.
    unsafe { asm!("hint 7", inout("x30") address, options(pure, nomem, nostack, preserves_flags)) };
    address
}
