//! What an instruction does to memory.

use crate::arch::registers::Registers;
use crate::data_source::Operation;

/// What an instruction does to memory other than the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// It touches none, or the stack by its pointer.
    NoMemory,
    /// It reads or writes it.
    Memory {
        /// Which of them.
        operation: Operation,
        /// Where; `None` if registers no longer say it: a load has replaced the one that held it, as in
        /// a chain of pointers.
        place: Option<Place>,
    },
}

/// An address in terms of registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub(crate) base: Option<u8>,
    /// Which register, times what.
    pub(crate) index: Option<(u8, u8)>,
    pub(crate) displacement: u64,
    /// The displacement is an address as the file states it.
    pub(crate) in_file: bool,
}

impl Place {
    /// The address; `bias` is what is added to addresses in the file where it is mapped. Of an
    /// instruction that gathers elements it is where their array begins.
    pub fn address(&self, registers: &Registers, bias: u64) -> u64 {
        let value = |number: u8| registers.general[usize::from(number) % Registers::GENERAL];
        let index = self.index.map_or(0, |(number, scale)| value(number).wrapping_mul(scale.into()));
        let bias = if self.in_file { bias } else { 0 };
        self.base.map_or(0, value).wrapping_add(index).wrapping_add(self.displacement).wrapping_add(bias)
    }
}
