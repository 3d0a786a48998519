//! What is mapped into one process image, and how its stacks are unwound.

use std::rc::Rc;

use memtrace_wire::stack::StackHead;

use super::binary::Binary;
use super::unwind::{Registers, Step};

/// A file that is mapped.
#[derive(Clone)]
pub struct Mapped {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Added to addresses in the file.
    pub bias: u64,
    /// The file.
    pub binary: Rc<Binary>,
    /// Its number among all files of the trace.
    pub number: u32,
}

/// The modules of one process image.
#[derive(Clone, Default)]
pub struct Image {
    mapped: Vec<Mapped>,
}

/// Where a stack ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the thread's first function.
    Outermost,
    /// Where the copy ends, or no rule leads on.
    Unknown,
}

/// No stack is taken to be deeper.
const FRAMES_MAX: usize = 4096;

impl Image {
    /// Adds a module; what was mapped there before is gone. True if this was news.
    pub fn add(&mut self, module: Mapped) -> bool {
        let overlaps = |old: &Mapped| old.start < module.end && module.start < old.end;
        if self.mapped.iter().any(|old| old.start == module.start && old.number == module.number) {
            return false;
        }
        self.mapped.retain(|old| !overlaps(old));
        let at = self.mapped.partition_point(|old| old.start < module.start);
        self.mapped.insert(at, module);
        true
    }

    /// The module that an address lies in.
    pub fn find(&self, address: u64) -> Option<&Mapped> {
        let after = self.mapped.partition_point(|module| module.start <= address);
        self.mapped.get(after.checked_sub(1)?).filter(|module| address < module.end)
    }

    /// Return addresses of a copied stack, innermost first, without the probe's own frames; and how it ended.
    /// Of a frame that a signal interrupted it is the address behind the instruction's first byte: every
    /// address less one lies in its frame's function.
    pub fn unwind(&self, head: &StackHead, copy: &[u8], out: &mut Vec<u64>) -> End {
        let read = |address: u64| {
            let at = usize::try_from(address.checked_sub(head.sp)?).ok()?;
            let word = copy.get(at..at.checked_add(8)?)?.first_chunk()?;
            Some(u64::from_le_bytes(*word))
        };
        let mut registers = Registers { ip: head.ip, sp: head.sp, bp: head.bp };
        let mut counter = head.ip;
        let probe = self.find(counter).map(|module| module.number);
        for _ in 0..FRAMES_MAX {
            let Some(module) = self.find(counter) else { return End::Unknown };
            let (step, interrupted) =
                module.binary.step(counter.wrapping_sub(module.bias), &mut registers, &read);
            match step {
                Step::Caller => {}
                Step::Outermost => return End::Outermost,
                Step::Lost => return End::Unknown,
            }
            counter = if interrupted { registers.ip } else { registers.ip.wrapping_sub(1) };
            if !out.is_empty() || self.find(counter).map(|module| module.number) != probe {
                out.push(counter.wrapping_add(1));
            }
        }
        End::Unknown
    }
}
