//! The unwinding rule of one program counter, from a mapped module's `.eh_frame_hdr` and `.eh_frame` (Linux
//! Standard Base, "Exception Frames"; DWARF 4, section 6.4). Reads what is mapped, allocates nothing, and stops
//! at whatever it does not know: such a rule is [`Cfa::Unknown`].
//!
//! Of all registers three matter: the stack pointer (in the caller: the CFA), the frame pointer and the return
//! address, which x86-64 code keeps below the CFA.

const RBP: u64 = 6;
const RSP: u64 = 7;
const RETURN_ADDRESS: u64 = 16;
/// Where the return address is, seen from the CFA.
const RETURN_OFFSET: i64 = -8;

/// How to go from a frame to its caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Where the caller's part of the stack begins; the return address lies below it.
    pub cfa: Cfa,
    /// Where the caller's frame pointer is.
    pub bp: Saved,
}

/// The canonical frame address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Cfa {
    /// Not known, or in a way that no compiler writes at a call.
    Unknown = 0,
    /// There is no caller: the thread began here.
    End,
    /// The return path of a signal handler: the stack pointer is at the `ucontext_t` of what it interrupted.
    Signal,
    /// Stack pointer and so many bytes.
    Sp(i32),
    /// Frame pointer and so many bytes.
    Bp(i32),
    /// What lies at so many bytes from the frame pointer (functions that align their stack).
    AtBp(i32),
    /// A procedure linkage table: 8 above the stack pointer, 16 from this byte of each entry on.
    Plt(i32),
}

/// Where a register of the caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Saved {
    /// Where it was.
    Same = 0,
    /// At so many bytes from the CFA.
    AtCfa(i32),
    /// At so many bytes from the frame pointer.
    AtBp(i32),
    /// Gone, or in another way.
    Lost,
}

impl Rule {
    /// No rule.
    pub const UNKNOWN: Rule = Rule { cfa: Cfa::Unknown, bp: Saved::Lost };
}

/// The rule of a program counter in the module whose `.eh_frame_hdr` is at `index`.
///
/// # Safety
/// The module is mapped, and `index` is where its program header says.
pub unsafe fn rule(index: usize, counter: usize) -> Rule {
    // SAFETY: as the caller promises.
    unsafe { find(index, counter) }.unwrap_or(Rule::UNKNOWN)
}

unsafe fn find(index: usize, counter: usize) -> Option<Rule> {
    // SAFETY: the caller's module; its tables are where they say.
    unsafe {
        let (begin, entry) = search(index, counter)?;
        let (common, instructions) = read(begin, entry, counter)?;
        let mut first = State::FIRST;
        let mut place = begin;
        run(&mut first, None, &common, common.instructions, &mut place, usize::MAX)?;
        let mut state = first;
        run(&mut state, Some(&first), &common, instructions, &mut place, counter)?;
        Some(state.rule(common.is_signal))
    }
}

/// The table of `.eh_frame_hdr`: pairs of a function's start and its description, both relative to the table's
/// section, by start (the only form that linkers write). Returns the pair for a program counter.
unsafe fn search(index: usize, counter: usize) -> Option<(usize, usize)> {
    const FORM: [u8; 4] = [1, POINTER_RELATIVE | SIGNED_4, UNSIGNED_4, DATA_RELATIVE | SIGNED_4];
    const HEAD: usize = 12;
    // SAFETY: inside the section, whose length the count gives.
    unsafe {
        if (index as *const [u8; 4]).read() != FORM {
            return None;
        }
        let pair = |at: usize| ((index + HEAD + at * 8) as *const [i32; 2]).read_unaligned();
        let (mut low, mut high) = (0, ((index + 8) as *const u32).read_unaligned() as usize);
        while low < high {
            let middle = low + (high - low) / 2;
            let [start, _] = pair(middle);
            if index.wrapping_add_signed(start as isize) <= counter { low = middle + 1 } else { high = middle }
        }
        let [start, entry] = pair(low.checked_sub(1)?);
        Some((index.wrapping_add_signed(start as isize), index.wrapping_add_signed(entry as isize)))
    }
}

const UNSIGNED_4: u8 = 0x03;
const SIGNED_4: u8 = 0x0b;
const POINTER_RELATIVE: u8 = 0x10;
const DATA_RELATIVE: u8 = 0x30;

/// Bytes of an encoded pointer; `None` for those of variable length.
fn pointer_bytes(encoding: u8) -> Option<usize> {
    match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => Some(8),
        0x03 | 0x0b => Some(4),
        0x02 | 0x0a => Some(2),
        _ => None,
    }
}

/// What descriptions of functions (FDE) share (CIE).
struct Common {
    code_factor: u64,
    data_factor: i64,
    /// Encoding of the pointers in its descriptions.
    encoding: u8,
    has_augmentation: bool,
    is_signal: bool,
    instructions: Bytes,
}

/// Reads the description at `at` of the function that begins at `begin`, if it covers the program counter: what it
/// shares, and its own instructions.
unsafe fn read(begin: usize, at: usize, counter: usize) -> Option<(Common, Bytes)> {
    // SAFETY: an entry of the table.
    unsafe {
        let mut bytes = Bytes::record(at)?;
        let here = bytes.at;
        let common = Common::read(here.checked_sub(bytes.u32()? as usize)?)?;
        let size = pointer_bytes(common.encoding)?;
        bytes.skip(size)?;
        let length = match size {
            2 => u64::from(bytes.u16()?),
            4 => u64::from(bytes.u32()?),
            _ => bytes.u64()?,
        };
        if common.has_augmentation {
            let skipped = bytes.unsigned()?;
            bytes.skip(skipped as usize)?;
        }
        ((counter.wrapping_sub(begin) as u64) < length).then_some((common, bytes))
    }
}

impl Common {
    unsafe fn read(at: usize) -> Option<Common> {
        // SAFETY: a description refers to it.
        unsafe {
            let mut bytes = Bytes::record(at)?;
            if bytes.u32()? != 0 {
                return None;
            }
            let version = bytes.u8()?;
            let mut letters = Bytes { at: bytes.at, end: bytes.end };
            while bytes.u8()? != 0 {}
            let code_factor = bytes.unsigned()?;
            let data_factor = bytes.signed()?;
            let register = if version == 1 { u64::from(bytes.u8()?) } else { bytes.unsigned()? };
            if !matches!(version, 1 | 3) || register != RETURN_ADDRESS {
                return None;
            }
            let mut common = Common {
                code_factor,
                data_factor,
                encoding: 0,
                has_augmentation: false,
                is_signal: false,
                instructions: Bytes { at: 0, end: 0 },
            };
            let mut after = None;
            loop {
                match letters.u8()? {
                    0 => break,
                    b'z' => {
                        let length = bytes.unsigned()? as usize;
                        after = Some(bytes.at.checked_add(length)?);
                        common.has_augmentation = true;
                    }
                    b'R' => common.encoding = bytes.u8()?,
                    b'L' => bytes.skip(1)?,
                    b'P' => {
                        let size = pointer_bytes(bytes.u8()?)?;
                        bytes.skip(size)?;
                    }
                    b'S' => common.is_signal = true,
                    _ => return None,
                }
            }
            common.instructions = Bytes { at: after.unwrap_or(bytes.at), end: bytes.end };
            Some(common)
        }
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
    Usual,
    Expression,
    Other,
}

impl State {
    const FIRST: State = State {
        cfa: CfaState::Register { register: u64::MAX, offset: 0 },
        bp: Saved::Same,
        return_address: ReturnAddress::Undefined,
    };

    fn rule(&self, is_signal: bool) -> Rule {
        let small = |offset: i64| i32::try_from(offset).ok();
        let cfa = match (self.return_address, self.cfa) {
            (ReturnAddress::Undefined, _) => Some(Cfa::End),
            (ReturnAddress::Usual, CfaState::Register { register: RSP, offset }) => {
                small(offset).map(Cfa::Sp)
            }
            (ReturnAddress::Usual, CfaState::Register { register: RBP, offset }) => {
                small(offset).map(Cfa::Bp)
            }
            (ReturnAddress::Usual, CfaState::Expression(bytes)) => plt(bytes).or_else(|| at_bp(bytes)),
            (ReturnAddress::Expression, CfaState::Expression(bytes)) if is_signal => signal(bytes),
            _ => None,
        };
        let Some(cfa) = cfa else { return Rule::UNKNOWN };
        Rule { cfa, bp: if matches!(cfa, Cfa::End | Cfa::Signal) { Saved::Lost } else { self.bp } }
    }

    /// Sets the rule of a register, if it is one that matters.
    fn set(&mut self, register: u64, bp: Saved, return_address: ReturnAddress) {
        match register {
            RBP => self.bp = bp,
            RETURN_ADDRESS => self.return_address = return_address,
            _ => {}
        }
    }

    /// A register is saved at so many bytes from the CFA.
    fn save(&mut self, register: u64, offset: i64) {
        let bp = i32::try_from(offset).map_or(Saved::Lost, Saved::AtCfa);
        let usual = if offset == RETURN_OFFSET { ReturnAddress::Usual } else { ReturnAddress::Other };
        self.set(register, bp, usual);
    }
}

const OP_DEREF: u8 = 0x06;
const OP_BREG_RBP: u8 = 0x76;
const OP_BREG_RSP: u8 = 0x77;

/// `rsp + 8 + ((rip & 15) >= n) * 8`, as linkers describe their tables.
fn plt(mut bytes: Bytes) -> Option<Cfa> {
    const LIT0: u8 = 0x30;
    const BEFORE: [u8; 6] = [OP_BREG_RSP, 8, 0x80, 0, LIT0 + 15, 0x1a];
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

/// `*(rbp + n)`
fn at_bp(mut bytes: Bytes) -> Option<Cfa> {
    let offset = bytes.register_and_offset(OP_BREG_RBP)?;
    (bytes.u8()? == OP_DEREF && bytes.is_empty()).then_some(Cfa::AtBp(offset))
}

/// `*(rsp + 160)`: the stack pointer in glibc's `__restore_rt`, whose stack holds a `ucontext_t`.
fn signal(mut bytes: Bytes) -> Option<Cfa> {
    let offset = bytes.register_and_offset(OP_BREG_RSP)?;
    (offset == UCONTEXT_SP as i32 && bytes.u8()? == OP_DEREF && bytes.is_empty()).then_some(Cfa::Signal)
}

/// Offsets in `ucontext_t` (sys/ucontext.h, x86-64).
pub const UCONTEXT_BP: usize = 120;
/// As above.
pub const UCONTEXT_SP: usize = 160;
/// As above.
pub const UCONTEXT_IP: usize = 168;

/// Runs instructions up to the row of the program counter. `None` at what it does not understand.
fn run(
    state: &mut State,
    first: Option<&State>,
    common: &Common,
    mut code: Bytes,
    place: &mut usize,
    counter: usize,
) -> Option<()> {
    /// Compilers nest one deep.
    const REMEMBERED_MAX: usize = 8;
    let mut remembered = [State::FIRST; REMEMBERED_MAX];
    let mut depth = 0;
    while !code.is_empty() {
        let operation = code.u8()?;
        let low = u64::from(operation & 0x3f);
        let advance = match operation >> 6 {
            1 => Some(low),
            2 => {
                let offset = code.unsigned()? as i64;
                state.save(low, offset.wrapping_mul(common.data_factor));
                continue;
            }
            3 => {
                let first = first?;
                state.set(low, first.bp, first.return_address);
                continue;
            }
            _ => match operation {
                0x02 => Some(u64::from(code.u8()?)),
                0x03 => Some(u64::from(code.u16()?)),
                0x04 => Some(u64::from(code.u32()?)),
                _ => None,
            },
        };
        if let Some(delta) = advance {
            let next = place.wrapping_add(delta.wrapping_mul(common.code_factor) as usize);
            if next > counter {
                return Some(());
            }
            *place = next;
            continue;
        }
        match operation {
            // nop; GNU_args_size
            0x00 => {}
            0x2e => drop(code.unsigned()?),
            // remember_state, restore_state
            0x0a => {
                *remembered.get_mut(depth)? = *state;
                depth += 1;
            }
            0x0b => {
                depth = depth.checked_sub(1)?;
                *state = *remembered.get(depth)?;
            }
            _ => rare(state, first, common, &mut code, operation)?,
        }
    }
    Some(())
}

/// The instructions with a byte of their own that set a rule.
fn rare(
    state: &mut State,
    first: Option<&State>,
    common: &Common,
    code: &mut Bytes,
    operation: u8,
) -> Option<()> {
    let scaled = |offset: i64| offset.wrapping_mul(common.data_factor);
    match operation {
        // offset_extended, offset_extended_sf, GNU_negative_offset_extended
        0x05 => {
            let register = code.unsigned()?;
            state.save(register, scaled(code.unsigned()? as i64));
        }
        0x11 => {
            let register = code.unsigned()?;
            state.save(register, scaled(code.signed()?));
        }
        0x2f => {
            let register = code.unsigned()?;
            state.save(register, scaled((code.unsigned()? as i64).wrapping_neg()));
        }
        // restore_extended
        0x06 => {
            let first = first?;
            state.set(code.unsigned()?, first.bp, first.return_address);
        }
        // undefined, same_value, register
        0x07 => state.set(code.unsigned()?, Saved::Lost, ReturnAddress::Undefined),
        0x08 => state.set(code.unsigned()?, Saved::Same, ReturnAddress::Other),
        0x09 => {
            state.set(code.unsigned()?, Saved::Lost, ReturnAddress::Other);
            code.unsigned()?;
        }
        // def_cfa, def_cfa_sf
        0x0c => {
            let register = code.unsigned()?;
            state.cfa = CfaState::Register { register, offset: code.unsigned()? as i64 };
        }
        0x12 => {
            let register = code.unsigned()?;
            state.cfa = CfaState::Register { register, offset: scaled(code.signed()?) };
        }
        // def_cfa_register, def_cfa_offset, def_cfa_offset_sf
        0x0d => {
            let CfaState::Register { offset, .. } = state.cfa else { return None };
            state.cfa = CfaState::Register { register: code.unsigned()?, offset };
        }
        0x0e => {
            let CfaState::Register { register, .. } = state.cfa else { return None };
            state.cfa = CfaState::Register { register, offset: code.unsigned()? as i64 };
        }
        0x13 => {
            let CfaState::Register { register, .. } = state.cfa else { return None };
            state.cfa = CfaState::Register { register, offset: scaled(code.signed()?) };
        }
        // def_cfa_expression
        0x0f => state.cfa = CfaState::Expression(code.block()?),
        // expression
        0x10 => {
            let register = code.unsigned()?;
            let mut bytes = code.block()?;
            let bp = match bytes.register_and_offset(OP_BREG_RBP) {
                Some(offset) if bytes.is_empty() => Saved::AtBp(offset),
                _ => Saved::Lost,
            };
            state.set(register, bp, ReturnAddress::Expression);
        }
        // val_offset, val_offset_sf
        0x14 | 0x15 => {
            state.set(code.unsigned()?, Saved::Lost, ReturnAddress::Other);
            code.unsigned()?;
        }
        // val_expression
        0x16 => {
            state.set(code.unsigned()?, Saved::Lost, ReturnAddress::Other);
            code.block()?;
        }
        _ => return None,
    }
    Some(())
}

/// Bytes of a mapped section.
#[derive(Clone, Copy)]
struct Bytes {
    at: usize,
    end: usize,
}

impl Bytes {
    /// A record that begins with its length.
    unsafe fn record(at: usize) -> Option<Bytes> {
        /// Of the form for sections beyond 4 GiB.
        const LONG: u32 = u32::MAX;
        // SAFETY: a record of the section.
        let length = unsafe { (at as *const u32).read_unaligned() };
        let begin = at.checked_add(4)?;
        (length != LONG && length != 0).then_some(Bytes { at: begin, end: begin.checked_add(length as usize)? })
    }

    fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at = self.at.checked_add(bytes).filter(|at| *at <= self.end)?;
        Some(())
    }

    fn take<T>(&mut self) -> Option<T> {
        let at = self.at;
        self.skip(size_of::<T>())?;
        // SAFETY: inside the record, which is mapped; used for integers alone.
        Some(unsafe { (at as *const T).read_unaligned() })
    }

    fn u8(&mut self) -> Option<u8> {
        self.take()
    }

    fn u16(&mut self) -> Option<u16> {
        self.take()
    }

    fn u32(&mut self) -> Option<u32> {
        self.take()
    }

    fn u64(&mut self) -> Option<u64> {
        self.take()
    }

    /// ULEB128
    fn unsigned(&mut self) -> Option<u64> {
        self.leb().map(|(value, _, _)| value)
    }

    /// SLEB128
    fn signed(&mut self) -> Option<i64> {
        let (value, bits, negative) = self.leb()?;
        let sign = if negative && bits < 64 { u64::MAX << bits } else { 0 };
        Some((value | sign) as i64)
    }

    fn leb(&mut self) -> Option<(u64, u32, bool)> {
        let (mut value, mut bits) = (0u64, 0);
        loop {
            let byte = self.u8()?;
            if bits < 64 {
                value |= u64::from(byte & 0x7f) << bits;
            }
            bits += 7;
            if byte & 0x80 == 0 {
                return Some((value, bits, byte & 0x40 != 0));
            }
        }
    }

    /// A length and so many bytes.
    fn block(&mut self) -> Option<Bytes> {
        let length = self.unsigned()? as usize;
        let at = self.at;
        self.skip(length)?;
        Some(Bytes { at, end: self.at })
    }

    /// The operation and its offset.
    fn register_and_offset(&mut self, operation: u8) -> Option<i32> {
        (self.u8()? == operation).then_some(())?;
        i32::try_from(self.signed()?).ok()
    }
}
