//! Unwinding by the rules of `.eh_frame`: exact for every program counter they cover, and nothing is guessed
//! where they say nothing.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EndianSlice, EvaluationResult, LittleEndian,
    Location, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, Value, X86_64,
};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The registers that rules are about.
#[derive(Debug, Clone, Copy)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer, or whatever the program keeps in that register.
    pub bp: u64,
}

/// How to find the caller of a program counter.
#[derive(Debug, Clone)]
pub struct Rule {
    cfa: CfaRule<usize>,
    bp: RegisterRule<usize>,
    ip: RegisterRule<usize>,
    encoding: Encoding,
    /// The caller was interrupted by a signal: it is at the instruction itself, not behind a call.
    pub interrupted: bool,
}

/// What a step led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The caller; the registers are its now.
    Caller,
    /// There is none: the thread began here.
    Outermost,
    /// Part of the stack is missing, or the rule is of a kind that no compiler writes.
    Lost,
}

/// The sections with the rules of a file.
#[derive(Default)]
pub struct Rules {
    bases: BaseAddresses,
    frames: Vec<u8>,
    index: Vec<u8>,
}

impl Rules {
    /// From the data of `.eh_frame` and `.eh_frame_hdr` (empty if the file has none), with their addresses.
    pub fn new(bases: BaseAddresses, frames: Vec<u8>, index: Vec<u8>) -> Rules {
        Rules { bases, frames, index }
    }

    fn section(&self) -> EhFrame<Bytes<'_>> {
        let mut section = EhFrame::new(&self.frames, LittleEndian);
        section.set_address_size(8);
        section
    }

    /// The rule for a program counter, as stated in the file.
    pub fn find(&self, counter: u64) -> Option<Rule> {
        let section = self.section();
        let index = EhFrameHdr::new(&self.index, LittleEndian).parse(&self.bases, 8).ok();
        let fde = match index.as_ref().and_then(|index| index.table()) {
            Some(table) => {
                table.fde_for_address(&section, &self.bases, counter, EhFrame::cie_from_offset).ok()?
            }
            None => section.fde_for_address(&self.bases, counter, EhFrame::cie_from_offset).ok()?,
        };
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(&section, &self.bases, &mut context, counter).ok()?;
        Some(Rule {
            cfa: row.cfa().clone(),
            // Callee-saved registers that a rule does not name still hold the caller's value.
            bp: row.register(X86_64::RBP).unwrap_or(RegisterRule::SameValue),
            ip: row.register(X86_64::RA).unwrap_or(RegisterRule::Undefined),
            encoding: fde.cie().encoding(),
            interrupted: fde.is_signal_trampoline(),
        })
    }

    /// Goes to the caller by a rule found here.
    pub fn apply(&self, rule: &Rule, registers: &mut Registers, read: &impl Fn(u64) -> Option<u64>) -> Step {
        if rule.ip == RegisterRule::Undefined {
            return Step::Outermost;
        }
        let Some(caller) = self.caller(rule, *registers, read) else { return Step::Lost };
        // The stack grows downwards: a caller's part of it lies higher, but for another stack of a signal.
        if caller.sp <= registers.sp && !rule.interrupted {
            return Step::Lost;
        }
        *registers = caller;
        if caller.ip == 0 { Step::Outermost } else { Step::Caller }
    }

    fn caller(&self, rule: &Rule, now: Registers, read: &impl Fn(u64) -> Option<u64>) -> Option<Registers> {
        let evaluate = |expression: UnwindExpression<usize>, first: Option<u64>| {
            self.evaluate(expression, rule.encoding, now, first, read)
        };
        let sp = match &rule.cfa {
            CfaRule::RegisterAndOffset { register, offset } => {
                value_of(*register, now)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => evaluate(*expression, None)?,
        };
        let register = |rule: &RegisterRule<usize>, same: u64| match rule {
            RegisterRule::SameValue => Some(same),
            RegisterRule::Offset(offset) => read(sp.wrapping_add_signed(*offset)),
            RegisterRule::ValOffset(offset) => Some(sp.wrapping_add_signed(*offset)),
            RegisterRule::Register(register) => value_of(*register, now),
            RegisterRule::Expression(expression) => read(evaluate(*expression, Some(sp))?),
            RegisterRule::ValExpression(expression) => evaluate(*expression, Some(sp)),
            _ => None,
        };
        // A frame pointer that is lost is missed only by a caller whose rule needs it.
        let bp = register(&rule.bp, now.bp).unwrap_or(0);
        Some(Registers { ip: register(&rule.ip, now.ip)?, sp, bp })
    }

    fn evaluate(
        &self,
        expression: UnwindExpression<usize>,
        encoding: Encoding,
        now: Registers,
        first: Option<u64>,
        read: &impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut evaluation = expression.get(&self.section()).ok()?.evaluation(encoding);
        if let Some(first) = first {
            evaluation.set_initial_value(first);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(value_of(register, now)?)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(read(address)?)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result().last()?.location {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }
}

fn value_of(register: gimli::Register, registers: Registers) -> Option<u64> {
    match register {
        X86_64::RSP => Some(registers.sp),
        X86_64::RBP => Some(registers.bp),
        X86_64::RA => Some(registers.ip),
        _ => None,
    }
}
