//! What lies at a fixed distance from the thread pointer (initial-exec TLS).

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
