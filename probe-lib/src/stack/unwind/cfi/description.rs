//! The descriptions of functions: found in `.eh_frame_hdr`, read from `.eh_frame`.

use super::bytes::Bytes;
use crate::arch::unwind::RETURN_ADDRESS;

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

/// The table of `.eh_frame_hdr`: pairs of a function's start and its description, both
/// relative to the table's section, by start (the only form that linkers write). Returns the
/// pair for a program counter.
///
/// # Safety
/// As for [`rule`](super::rule).
pub unsafe fn search(index: usize, counter: usize) -> Option<(usize, usize)> {
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
            if index.wrapping_add_signed(start as isize) <= counter {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let [start, entry] = pair(low.checked_sub(1)?);
        Some((index.wrapping_add_signed(start as isize), index.wrapping_add_signed(entry as isize)))
    }
}

/// What descriptions of functions (FDE) share (CIE).
pub struct Common {
    /// What advances of the program counter are multiplied by.
    pub code_factor: u64,
    /// What offsets are multiplied by.
    pub data_factor: i64,
    /// Encoding of the pointers in its descriptions.
    encoding: u8,
    has_augmentation: bool,
    /// They describe what a signal handler returns to.
    pub is_signal: bool,
    /// Instructions before those of each.
    pub instructions: Bytes,
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
            let mut letters = bytes;
            while bytes.u8()? != 0 {}
            let code_factor = bytes.unsigned()?;
            let data_factor = bytes.signed()?;
            let register = if version == 1 { u64::from(bytes.u8()?) } else { bytes.unsigned()? };
            if !matches!(version, 1 | 3) || register != u64::from(RETURN_ADDRESS) {
                return None;
            }
            let mut common = Common {
                code_factor,
                data_factor,
                encoding: 0,
                has_augmentation: false,
                is_signal: false,
                instructions: bytes,
            };
            let mut after = None;
            loop {
                match letters.u8()? {
                    0 => break,
                    b'z' => {
                        let length = bytes.unsigned()? as usize;
                        after = Some(bytes.at().checked_add(length)?);
                        common.has_augmentation = true;
                    }
                    b'R' => common.encoding = bytes.u8()?,
                    b'L' => bytes.skip(1)?,
                    b'P' => {
                        let size = pointer_bytes(bytes.u8()?)?;
                        bytes.skip(size)?;
                    }
                    b'S' => common.is_signal = true,
                    // Which key signs return addresses, and tagged stacks (64-bit Arm).
                    b'B' | b'G' => {}
                    _ => return None,
                }
            }
            common.instructions = bytes.from(after.unwrap_or(bytes.at()));
            Some(common)
        }
    }
}

/// Reads the description at `at` of the function that begins at `begin`, if it covers the program
/// counter: what it shares, and its own instructions.
///
/// # Safety
/// `at` is of such a pair.
pub unsafe fn read(begin: usize, at: usize, counter: usize) -> Option<(Common, Bytes)> {
    // SAFETY: an entry of the table.
    unsafe {
        let mut bytes = Bytes::record(at)?;
        let here = bytes.at();
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
