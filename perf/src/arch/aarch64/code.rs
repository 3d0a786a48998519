//! Which memory an instruction has touched is not known here: nothing decodes it.

use crate::operand::Operand;

/// False: instructions are not decoded here.
pub const IS_DECODED: bool = false;

/// The code of a function.
pub struct Function;

impl Function {
    /// The function that begins at `start`.
    pub fn new(_: u64, _: Vec<u8>) -> Function {
        Function
    }

    /// The operand of the instruction that was executed before `ip` was reached: not known.
    pub fn before(&self, _: u64) -> Option<Operand> {
        None
    }
}
