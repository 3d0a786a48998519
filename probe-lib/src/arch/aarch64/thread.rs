//! The thread pointer, and what lies at a fixed distance from it (initial-exec TLS).

use core::arch::asm;

/// The calling thread's copy of a block of `.tbss`.
macro_rules! of_thread {
    ($name:literal) => {{
        let pointer;
        // SAFETY: reads the block's offset from the GOT and the thread pointer from its register,
        // as the TLS ABI of 64-bit Arm defines initial-exec access.
        unsafe {
            core::arch::asm!(
                "mrs {1}, tpidr_el0",
                concat!("adrp {0}, :gottprel:", $name),
                concat!("ldr {0}, [{0}, :gottprel_lo12:", $name, "]"),
                "add {0}, {1}, {0}",
                out(reg) pointer,
                out(reg) _,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        pointer
    }};
}
pub(crate) use of_thread;

/// The thread pointer. The C library keeps its own data of the thread right below it, and puts
/// both at the top of the thread's stack.
pub fn control_block() -> usize {
    let address: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}
