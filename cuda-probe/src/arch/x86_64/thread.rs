//! What lies at a fixed distance from the thread pointer (initial-exec TLS).

/// The calling thread's copy of a block of `.tbss`.
macro_rules! of_thread {
    ($name:literal) => {{
        let pointer;
        // SAFETY: reads the block's offset from the GOT and the thread pointer from fs:0, as the
        // x86-64 TLS ABI defines initial-exec access.
        unsafe {
            core::arch::asm!(
                concat!("mov {0}, qword ptr [rip + ", $name, "@GOTTPOFF]"),
                "add {0}, qword ptr fs:[0]",
                out(reg) pointer,
                options(pure, readonly, nostack),
            );
        }
        pointer
    }};
}
pub(crate) use of_thread;
