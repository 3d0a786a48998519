//! What the registers of a thread held, as `PERF_SAMPLE_REGS_USER` lays them out (asm/perf_regs.h).

/// General registers of x86-64, by their numbers in instructions (rax, rcx, rdx, rbx, rsp, rbp, rsi,
/// rdi, r8 to r15), and the address of the instruction that the thread would execute next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    /// Of the next instruction.
    pub ip: u64,
    /// By number.
    pub general: [u64; Registers::GENERAL],
}

/// ax, bx, cx, dx, si, di, bp, sp and ip; r8 to r15.
pub const MASK: u64 = 0x1ff | 0xff << 16;
/// How many these are.
pub const WORDS: usize = 17;

impl Registers {
    /// How many general registers there are.
    pub const GENERAL: usize = 16;

    /// Of the words of a sample, in the order of the mask's bits.
    pub fn of(words: [u64; WORDS]) -> Registers {
        let [ax, bx, cx, dx, si, di, bp, sp, ip, r8, r9, r10, r11, r12, r13, r14, r15] = words;
        Registers { ip, general: [ax, cx, dx, bx, sp, bp, si, di, r8, r9, r10, r11, r12, r13, r14, r15] }
    }
}

#[cfg(test)]
impl Registers {
    /// As a kernel would write them.
    pub fn words(&self) -> [u64; WORDS] {
        let [ax, cx, dx, bx, sp, bp, si, di, r8, r9, r10, r11, r12, r13, r14, r15] = self.general;
        [ax, bx, cx, dx, si, di, bp, sp, self.ip, r8, r9, r10, r11, r12, r13, r14, r15]
    }
}
