//! What the registers of a thread held, as `PERF_SAMPLE_REGS_USER` lays them out (asm/perf_regs.h).

/// General registers of 64-bit Arm (x0 to x30, and the stack pointer), and the address of the
/// instruction that the thread would execute next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    /// Of the next instruction.
    pub ip: u64,
    /// By number.
    pub general: [u64; Registers::GENERAL],
}

/// x0 to x30, sp and pc.
pub const MASK: u64 = (1 << WORDS) - 1;
/// How many these are.
pub const WORDS: usize = 33;

impl Registers {
    /// How many general registers there are.
    pub const GENERAL: usize = 32;

    /// Of the words of a sample, in the order of the mask's bits.
    pub fn of(words: [u64; WORDS]) -> Registers {
        let [general @ .., ip] = words;
        Registers { ip, general }
    }
}

#[cfg(test)]
impl Registers {
    /// As a kernel would write them.
    pub fn words(&self) -> [u64; WORDS] {
        let mut words = [self.ip; WORDS];
        words[..Registers::GENERAL].copy_from_slice(&self.general);
        words
    }
}
