//! Which memory an instruction has touched, from its bytes and the registers after it.
//!
//! A timer interrupts a thread between two instructions. One that waited for memory retires before
//! the interrupt is taken, so time is spent by the instruction *before* the one that the sample
//! names; where a loop begins, that is the one before the jump back. Instructions can only be read
//! forwards: from the beginning of their function.

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

use crate::data_source::Operation;
use crate::operand::{Operand, Place};

/// True: instructions are decoded here.
pub const IS_DECODED: bool = true;

/// The code of a function.
pub struct Function {
    start: u64,
    code: Vec<u8>,
    /// Where instructions begin, one in each [`STEP`] or so.
    marks: Vec<u64>,
    /// Jumps within it, in the order of their targets.
    jumps: Vec<Jump>,
}

/// A jump within a function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Jump {
    target: u64,
    at: u64,
    is_conditional: bool,
}

/// Bytes between two marks: so many are read again for an address.
const STEP: u64 = 128;
/// Two instructions are no longer than this.
const TWO: u64 = 30;

impl Function {
    /// The function that begins at `start`.
    pub fn new(start: u64, code: Vec<u8>) -> Function {
        let mut decoder = Decoder::with_ip(64, &code, start, DecoderOptions::NONE);
        let (mut marks, mut jumps) = (vec![start], Vec::new());
        let mut last = start;
        while decoder.can_decode() {
            let at = decoder.ip();
            if at.wrapping_sub(last) >= STEP {
                marks.push(at);
                last = at;
            }
            let instruction = decoder.decode();
            // What follows data is not known.
            if instruction.is_invalid() {
                break;
            }
            let is_conditional = instruction.is_jcc_short_or_near();
            if is_conditional || instruction.is_jmp_short_or_near() {
                jumps.push(Jump { target: instruction.near_branch_target(), at, is_conditional });
            }
        }
        jumps.sort_unstable();
        Function { start, code, marks, jumps }
    }

    /// The operand of the instruction that was executed before `ip` was reached; `None` if it is not
    /// known which that was, or what it did.
    pub fn before(&self, ip: u64) -> Option<Operand> {
        let next = Decoder::with_ip(64, self.code_at(ip)?, ip, DecoderOptions::NONE).decode();
        if (next.has_rep_prefix() || next.has_repne_prefix()) && next.is_string_instruction() {
            // It is interrupted in between, and goes on where it was.
            return string(&next, 0);
        }
        let first = self.jumps.partition_point(|jump| jump.target < ip);
        let length = self.jumps[first..].partition_point(|jump| jump.target == ip);
        let jumps = &self.jumps[first..first + length];
        // Most times that a loop begins, it begins again.
        let is_back = |jump: &&Jump| jump.is_conditional && jump.at >= ip;
        let mut back = jumps.iter().filter(is_back).map(|jump| self.in_front_of(jump.at));
        if let Some(found) = back.next() {
            return found.filter(|_| back.all(|other| other == found));
        }
        let found = self.in_front_of(ip);
        let is_told = jumps.iter().all(|jump| self.in_front_of(jump.at) == found);
        found.filter(|_| is_told)
    }

    /// Its bytes from an address on.
    fn code_at(&self, ip: u64) -> Option<&[u8]> {
        self.code.get(usize::try_from(ip.checked_sub(self.start)?).ok()?..)
    }

    /// That of the instruction in front of the one at `ip`.
    fn in_front_of(&self, ip: u64) -> Option<Operand> {
        // It was just called.
        if ip == self.start {
            return Some(Operand::NoMemory);
        }
        let marks = self.marks.partition_point(|mark| mark.saturating_add(TWO) <= ip);
        let begin = self.marks[marks.saturating_sub(1)];
        in_front_of(self.code_at(begin)?, begin, ip)
    }
}

/// The same; `code` begins with an instruction at `start`.
fn in_front_of(code: &[u8], start: u64, ip: u64) -> Option<Operand> {
    use iced_x86::FlowControl::{Call, IndirectBranch, IndirectCall, Return, UnconditionalBranch};
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut last: [Option<Instruction>; 2] = [None, None];
    while decoder.ip() < ip && decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        last = [last[1], Some(instruction)];
    }
    if decoder.ip() != ip {
        return None;
    }
    let previous = last[1]?;
    // A comparison and the jump after it are executed as one.
    let previous = if previous.is_jcc_short_or_near() { last[0]? } else { previous };
    match previous.flow_control() {
        // A function has returned here, by the address on the stack.
        Call | IndirectCall => Some(Operand::NoMemory),
        // Another instruction has jumped here.
        IndirectBranch | Return | UnconditionalBranch => None,
        _ if previous.is_string_instruction() => string(&previous, 1),
        _ => operand(&previous),
    }
}

fn operand(instruction: &Instruction) -> Option<Operand> {
    let in_file = instruction.is_ip_rel_memory_operand();
    let (base, index) = match in_file {
        true => (Register::None, Register::None),
        false => (instruction.memory_base(), instruction.memory_index()),
    };
    let touches = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    // An address may be computed alone (lea), or be a hint.
    if !touches || info.used_memory().is_empty() || base == Register::RSP && index == Register::None {
        return Some(Operand::NoMemory);
    }
    // Addresses of 32 bits, and memory of the thread's own.
    let is_short = base.is_gpr32() || index.is_gpr32();
    if is_short || matches!(instruction.memory_segment(), Register::FS | Register::GS) {
        return None;
    }
    let writes = |access| {
        matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    let explicit = info.used_memory().iter().find(|memory| memory.base() == base)?;
    let operation = if writes(explicit.access()) { Operation::Store } else { Operation::Load };
    let replaced = |register: Register| {
        register != Register::None
            && info.used_registers().iter().any(|used| {
                used.register().full_register() == register.full_register() && writes(used.access())
            })
    };
    if replaced(base) || index.is_gpr() && replaced(index) {
        return Some(Operand::Memory { operation, place: None });
    }
    let index = number(index).map(|number| (number, instruction.memory_index_scale() as u8));
    let place =
        Place { base: number(base), index, displacement: instruction.memory_displacement64(), in_file };
    Some(Operand::Memory { operation, place: Some(place) })
}

/// Of an instruction on strings: where it writes, or else where it reads; `done` elements of it are done.
fn string(instruction: &Instruction, done: u64) -> Option<Operand> {
    use iced_x86::Mnemonic::{
        Lodsb, Lodsd, Lodsq, Lodsw, Movsb, Movsd, Movsq, Movsw, Stosb, Stosd, Stosq, Stosw,
    };
    const SI: u8 = 6;
    const DI: u8 = 7;
    let (register, operation) = match instruction.mnemonic() {
        Movsb | Movsw | Movsd | Movsq | Stosb | Stosw | Stosd | Stosq => (DI, Operation::Store),
        Lodsb | Lodsw | Lodsd | Lodsq => (SI, Operation::Load),
        _ => (DI, Operation::Load),
    };
    let place =
        Place { base: Some(register), index: None, displacement: 0u64.wrapping_sub(done), in_file: false };
    Some(Operand::Memory { operation, place: Some(place) })
}

fn number(register: Register) -> Option<u8> {
    register.is_gpr64().then(|| register.number() as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arch::registers::Registers;

    const START: u64 = 0x1000;

    /// What is found before the address that follows these bytes; a return comes after them.
    fn found(bytes: &[u8]) -> Option<Operand> {
        Function::new(START, [bytes, &[0xc3]].concat()).before(START + bytes.len() as u64)
    }

    /// The address that an instruction has touched if each register holds a thousand times its number.
    fn touched(bytes: &[u8]) -> Option<(Operation, Option<u64>)> {
        let registers = Registers { ip: 0, general: std::array::from_fn(|number| number as u64 * 1000) };
        match found(bytes)? {
            Operand::NoMemory => None,
            Operand::Memory { operation, place } => {
                Some((operation, place.map(|place| place.address(&registers, 0x7000_0000))))
            }
        }
    }

    #[test]
    fn addresses_come_from_the_registers() {
        let (load, store) = (Operation::Load, Operation::Store);
        // mov rax, [rdi+rsi*8]
        assert_eq!(touched(&[0x48, 0x8b, 0x04, 0xf7]), Some((load, Some(7000 + 8 * 6000))));
        // mov [rdi+16], rax
        assert_eq!(touched(&[0x48, 0x89, 0x47, 0x10]), Some((store, Some(7016))));
        // add qword [r12-8], 1
        assert_eq!(touched(&[0x49, 0x83, 0x44, 0x24, 0xf8, 1]), Some((store, Some(11_992))));
        // mov rax, [rip+16]: of the file
        let address = 0x7000_0000 + START + 7 + 16;
        assert_eq!(touched(&[0x48, 0x8b, 0x05, 16, 0, 0, 0]), Some((load, Some(address))));
        // vgatherdpd ymm0, [rdi+xmm1*8], ymm2: the array
        assert_eq!(touched(&[0xc4, 0xe2, 0xed, 0x92, 0x04, 0xcf]), Some((load, Some(7000))));
        // cmp qword [rdi], 0; jne, which did not jump
        assert_eq!(touched(&[0x48, 0x83, 0x3f, 0, 0x75, 0xfa]), Some((load, Some(7000))));
    }

    #[test]
    fn a_loop_begins_after_the_jump_back() {
        // nop; mov rax, [rsi]; then: add rdi, 8; cmp [rdi-8], rdx; jne -10
        let code = [0x90, 0x48, 0x8b, 0x06, 0x48, 0x83, 0xc7, 8, 0x48, 0x39, 0x57, 0xf8, 0x75, 0xf6, 0xc3];
        let function = Function::new(START, code.to_vec());
        let Some(Operand::Memory { operation, place: Some(place) }) = function.before(START + 4) else {
            panic!("it is known")
        };
        let registers = Registers { ip: 0, general: std::array::from_fn(|number| number as u64 * 1000) };
        assert_eq!((operation, place.address(&registers, 0)), (Operation::Load, 6992));
        // A part that is seldom executed, at the end: cmp dword [rdi], 0; je +2; nop; ret; mov [rsi], rax;
        // jmp to the nop
        let code = [0x83, 0x3f, 0, 0x74, 2, 0x90, 0xc3, 0x48, 0x89, 0x06, 0xeb, 0xf9];
        assert_eq!(Function::new(START, code.to_vec()).before(START + 5), None);
        // nop; rep stosq; dec rdx; jne to the rep
        let code = [0x90, 0xf3, 0x48, 0xab, 0x48, 0xff, 0xca, 0x75, 0xf8];
        let Some(Operand::Memory { operation, .. }) = Function::new(START, code.to_vec()).before(START + 1)
        else {
            panic!("it is interrupted in between")
        };
        assert_eq!(operation, Operation::Store);
        // Two ways that lead to one place from the front: je +4; mov rax, [rsi]; nop
        let code = [0x74, 4, 0x48, 0x8b, 0x06, 0x90, 0xc3];
        assert_eq!(Function::new(START, code.to_vec()).before(START + 6), Some(Operand::NoMemory));
        let code = [0x74, 3, 0x48, 0x8b, 0x06, 0x90, 0xc3];
        assert_eq!(Function::new(START, code.to_vec()).before(START + 5), None);
    }

    #[test]
    fn a_load_that_replaces_its_address_has_none() {
        // mov rax, [rax]
        let gone = Some(Operand::Memory { operation: Operation::Load, place: None });
        assert_eq!(found(&[0x48, 0x8b, 0x00]), gone);
        // mov eax, [rbx+rax*4]
        assert_eq!(found(&[0x8b, 0x04, 0x83]), gone);
    }

    #[test]
    fn instructions_on_strings_are_interrupted_in_between() {
        // rep movsq is where the thread will go on
        let code = [0x90, 0xf3, 0x48, 0xa5];
        let Some(Operand::Memory { operation, place: Some(place) }) =
            Function::new(START, code.to_vec()).before(START + 1)
        else {
            panic!("it is decoded")
        };
        let registers = Registers { ip: 0, general: [9; 16] };
        assert_eq!((operation, place.address(&registers, 0)), (Operation::Store, 9));
        // stosb is done
        assert_eq!(touched(&[0xaa]), Some((Operation::Store, Some(6999))));
    }

    #[test]
    fn what_touches_nothing_is_told_from_what_is_not_known() {
        // call; push [rsp+8]; prefetcht0 [rdi]; lea rax, [rdi+rsi*8]; add rax, 1; push rax; the beginning
        // of the function
        let (call, push, hint) = ([0xe8, 1, 0, 0, 0], [0xff, 0x74, 0x24, 8], [0x0f, 0x18, 0x0f]);
        let others = [&[0x48, 0x8d, 0x04, 0xf7][..], &[0x48, 0x83, 0xc0, 1], &[0x50], &[]];
        for nothing in [&call[..], &push, &hint].into_iter().chain(others) {
            assert_eq!(found(nothing), Some(Operand::NoMemory));
        }
        // ret; jmp; mov rax, fs:[40]; mov eax, [edi]; the middle of an instruction
        let thread_local = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0];
        for unknown in [&[0xc3][..], &[0xeb, 1], &thread_local, &[0x67, 0x8b, 0x07]] {
            assert_eq!(found(unknown), None);
        }
        assert_eq!(Function::new(START, vec![0x48, 0x8b, 0x04, 0xf7, 0xc3]).before(START + 2), None);
    }

    proptest! {
        #[test]
        fn no_code_can_hurt(start in any::<u64>(), code in prop::collection::vec(any::<u8>(), 0..300), at in any::<u64>()) {
            let function = Function::new(start, code);
            for ip in [at, start.wrapping_add(at % 320)] {
                function.before(ip);
            }
        }

        /// From a mark the same is found as from the beginning.
        #[test]
        fn marks_change_nothing(pieces in prop::collection::vec(0..5usize, 0..200)) {
            const KINDS: [&[u8]; 5] = [
                &[0x90],
                &[0x48, 0x8b, 0x04, 0xf7],
                &[0x48, 0x83, 0x3f, 0],
                &[0x75, 0xfa],
                &[0x48, 0x8b, 0x05, 16, 0, 0, 0],
            ];
            let code: Vec<u8> = pieces.iter().flat_map(|piece| KINDS[*piece]).copied().collect();
            let function = Function::new(START, code.clone());
            for ip in START + 1..START + code.len() as u64 {
                prop_assert_eq!(function.in_front_of(ip), in_front_of(&code, START, ip));
            }
        }
    }
}
