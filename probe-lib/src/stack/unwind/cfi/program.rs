//! The instructions of a description: what they say of one program counter's row.

use super::bytes::Bytes;
use super::description::Common;
use super::{Cfa, Rule, Saved};
use crate::arch::unwind::{self, Link, saved};

const FRAME_POINTER: u64 = unwind::FRAME_POINTER as u64;
const STACK_POINTER: u64 = unwind::STACK_POINTER as u64;
const RETURN_ADDRESS: u64 = unwind::RETURN_ADDRESS as u64;

/// Instructions of a description, run up to a program counter.
pub struct Program<'a> {
    common: &'a Common,
    state: State,
    /// After the instructions that all descriptions share, which others restore.
    first: Option<State>,
    /// The program counter that has been reached.
    place: usize,
}

impl Program<'_> {
    /// Of a function that begins at `begin`.
    pub fn new(common: &Common, begin: usize) -> Program<'_> {
        Program { common, state: State::FIRST, first: None, place: begin }
    }

    /// The rule in the row of `counter`. `None` at an instruction that is not known.
    pub fn row(mut self, instructions: Bytes, counter: usize) -> Option<Rule> {
        self.run(self.common.instructions, usize::MAX)?;
        self.first = Some(self.state);
        self.run(instructions, counter)?;
        Some(self.state.rule(self.common.is_signal))
    }

    fn run(&mut self, mut code: Bytes, counter: usize) -> Option<()> {
        /// Compilers nest one deep.
        const REMEMBERED_MAX: usize = 8;
        let mut remembered = [State::FIRST; REMEMBERED_MAX];
        let mut depth = 0;
        while !code.is_empty() {
            let operation = code.u8()?;
            let low = u64::from(operation & 0x3f);
            match operation >> 6 {
                1 => {
                    if !self.advance(low, counter) {
                        return Some(());
                    }
                    continue;
                }
                2 => {
                    let offset = self.scaled(code.unsigned()? as i64);
                    self.state.save(low, offset);
                    continue;
                }
                3 => {
                    self.restore(low)?;
                    continue;
                }
                _ => {}
            }
            match operation {
                // advance_loc1, advance_loc2, advance_loc4
                0x02..=0x04 => {
                    let delta = match operation {
                        0x02 => u64::from(code.u8()?),
                        0x03 => u64::from(code.u16()?),
                        _ => u64::from(code.u32()?),
                    };
                    if !self.advance(delta, counter) {
                        return Some(());
                    }
                }
                // remember_state, restore_state
                0x0a => {
                    *remembered.get_mut(depth)? = self.state;
                    depth += 1;
                }
                0x0b => {
                    depth = depth.checked_sub(1)?;
                    self.state = *remembered.get(depth)?;
                }
                // nop; AARCH64_negate_ra_state; GNU_args_size
                0x00 | 0x2d => {}
                0x2e => drop(code.unsigned()?),
                0x0c..=0x0f | 0x12 | 0x13 => self.set_cfa(operation, &mut code)?,
                _ => self.set_register(operation, &mut code)?,
            }
        }
        Some(())
    }

    /// False if the next row begins beyond `counter`.
    fn advance(&mut self, delta: u64, counter: usize) -> bool {
        let next = self.place.wrapping_add(delta.wrapping_mul(self.common.code_factor) as usize);
        if next <= counter {
            self.place = next;
        }
        next <= counter
    }

    fn scaled(&self, offset: i64) -> i64 {
        offset.wrapping_mul(self.common.data_factor)
    }

    fn restore(&mut self, register: u64) -> Option<()> {
        let first = self.first?;
        self.state.set(register, first.bp, first.return_address);
        Some(())
    }

    /// An instruction that says where the canonical frame address is.
    fn set_cfa(&mut self, operation: u8, code: &mut Bytes) -> Option<()> {
        // def_cfa_expression
        if operation == 0x0f {
            self.state.cfa = CfaState::Expression(code.block()?);
            return Some(());
        }
        let register = match (operation, self.state.cfa) {
            // def_cfa, def_cfa_sf, def_cfa_register
            (0x0c | 0x12 | 0x0d, _) => code.unsigned()?,
            (_, CfaState::Register { register, .. }) => register,
            (_, CfaState::Expression(_)) => return None,
        };
        let offset = match (operation, self.state.cfa) {
            // def_cfa, def_cfa_offset
            (0x0c | 0x0e, _) => code.unsigned()? as i64,
            // def_cfa_sf, def_cfa_offset_sf
            (0x12 | 0x13, _) => self.scaled(code.signed()?),
            (_, CfaState::Register { offset, .. }) => offset,
            (_, CfaState::Expression(_)) => return None,
        };
        self.state.cfa = CfaState::Register { register, offset };
        Some(())
    }

    /// An instruction that says where a register of the caller is.
    fn set_register(&mut self, operation: u8, code: &mut Bytes) -> Option<()> {
        let register = code.unsigned()?;
        match operation {
            // offset_extended, offset_extended_sf, GNU_negative_offset_extended
            0x05 => self.state.save(register, self.scaled(code.unsigned()? as i64)),
            0x11 => self.state.save(register, self.scaled(code.signed()?)),
            0x2f => self.state.save(register, self.scaled((code.unsigned()? as i64).wrapping_neg())),
            // restore_extended
            0x06 => self.restore(register)?,
            // undefined, same_value
            0x07 => self.state.set(register, Saved::Lost, ReturnAddress::Undefined),
            0x08 => self.state.set(register, Saved::Same, ReturnAddress::KEPT),
            // register, val_offset, val_offset_sf
            0x09 | 0x14 | 0x15 => {
                self.state.set(register, Saved::Lost, ReturnAddress::Other);
                code.unsigned()?;
            }
            // expression
            0x10 => {
                let bp = at_bp_plus(code.block()?);
                self.state.set(register, bp, ReturnAddress::Expression);
            }
            // val_expression
            0x16 => {
                self.state.set(register, Saved::Lost, ReturnAddress::Other);
                code.block()?;
            }
            _ => return None,
        }
        Some(())
    }
}

/// Frame pointer and n: where functions that align their stack save the frame pointer.
fn at_bp_plus(mut bytes: Bytes) -> Saved {
    match bytes.register_and_offset(OP_BREG_BP) {
        Some(offset) if bytes.is_empty() => Saved::AtBp(offset),
        _ => Saved::Lost,
    }
}

/// What a CFA program has said so far.
#[derive(Clone, Copy)]
struct State {
    cfa: CfaState,
    bp: Saved,
    return_address: ReturnAddress,
}

#[derive(Clone, Copy)]
enum CfaState {
    Register { register: u64, offset: i64 },
    Expression(Bytes),
}

#[derive(Clone, Copy, PartialEq)]
enum ReturnAddress {
    Undefined,
    At(Link),
    Expression,
    Other,
}

impl ReturnAddress {
    /// What it is before an instruction says anything.
    const FIRST: ReturnAddress = match Link::IN_REGISTER {
        Some(link) => ReturnAddress::At(link),
        None => ReturnAddress::Undefined,
    };
    /// Where it was when the function began.
    const KEPT: ReturnAddress = match Link::IN_REGISTER {
        Some(link) => ReturnAddress::At(link),
        None => ReturnAddress::Other,
    };
}

impl State {
    const FIRST: State = State {
        cfa: CfaState::Register { register: u64::MAX, offset: 0 },
        bp: Saved::Same,
        return_address: ReturnAddress::FIRST,
    };

    fn rule(&self, is_signal: bool) -> Rule {
        let small = |offset: i64| i32::try_from(offset).ok();
        let cfa = match (self.return_address, self.cfa) {
            (ReturnAddress::Undefined, _) => Some(Cfa::End),
            (ReturnAddress::At(_), CfaState::Register { register: STACK_POINTER, offset }) => {
                small(offset).map(Cfa::Sp)
            }
            (ReturnAddress::At(_), CfaState::Register { register: FRAME_POINTER, offset }) => {
                small(offset).map(Cfa::Bp)
            }
            (ReturnAddress::At(_), CfaState::Expression(bytes)) => plt(bytes).or_else(|| at_bp(bytes)),
            (ReturnAddress::Expression, CfaState::Expression(bytes)) if is_signal => signal(bytes),
            _ => None,
        };
        let Some(cfa) = cfa else { return Rule::UNKNOWN };
        let link = if let ReturnAddress::At(link) = self.return_address { link } else { Link::NONE };
        Rule { cfa, bp: if matches!(cfa, Cfa::End | Cfa::Signal) { Saved::Lost } else { self.bp }, link }
    }

    /// Sets the rule of a register, if unwinding needs it.
    fn set(&mut self, register: u64, bp: Saved, return_address: ReturnAddress) {
        match register {
            FRAME_POINTER => self.bp = bp,
            RETURN_ADDRESS => self.return_address = return_address,
            _ => {}
        }
    }

    /// A register is saved at this many bytes from the CFA.
    fn save(&mut self, register: u64, offset: i64) {
        let bp = i32::try_from(offset).map_or(Saved::Lost, Saved::AtCfa);
        let link = Link::at_cfa(offset).map_or(ReturnAddress::Other, ReturnAddress::At);
        self.set(register, bp, link);
    }
}

const OP_DEREF: u8 = 0x06;
/// A register and an offset.
const OP_BREG: u8 = 0x70;
const OP_BREG_BP: u8 = OP_BREG + unwind::FRAME_POINTER;
const OP_BREG_SP: u8 = OP_BREG + unwind::STACK_POINTER;

/// `rsp + 8 + ((rip & 15) >= n) * 8`, as linkers describe their tables on x86-64.
fn plt(mut bytes: Bytes) -> Option<Cfa> {
    const LIT0: u8 = 0x30;
    const BEFORE: [u8; 6] = [OP_BREG_SP, 8, 0x80, 0, LIT0 + 15, 0x1a];
    const AFTER: [u8; 4] = [0x2a, LIT0 + 3, 0x24, 0x22];
    for expected in BEFORE {
        if bytes.u8()? != expected {
            return None;
        }
    }
    let from = bytes.u8()?.checked_sub(LIT0).filter(|from| *from < 16)?;
    for expected in AFTER {
        if bytes.u8()? != expected {
            return None;
        }
    }
    bytes.is_empty().then_some(Cfa::Plt(i32::from(from)))
}

/// What lies at the frame pointer and n.
fn at_bp(mut bytes: Bytes) -> Option<Cfa> {
    let offset = bytes.register_and_offset(OP_BREG_BP)?;
    (bytes.u8()? == OP_DEREF && bytes.is_empty()).then_some(Cfa::AtBp(offset))
}

/// `*(rsp + 160)`: the stack pointer in glibc's `__restore_rt` on x86-64, whose stack holds a
/// `ucontext_t`.
fn signal(mut bytes: Bytes) -> Option<Cfa> {
    let offset = bytes.register_and_offset(OP_BREG_SP)?;
    (offset == saved::SP as i32 && bytes.u8()? == OP_DEREF && bytes.is_empty()).then_some(Cfa::Signal)
}
