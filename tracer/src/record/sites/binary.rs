//! An ELF file as stacks and samples need it: where it runs Python code, and what its instructions
//! touch.

use std::cell::OnceCell;
use std::ops::Range;
use std::path::Path;

use memtrace_perf::Operand;
use object::{Object, ObjectSegment};

use super::code::Code;
use crate::symbols::{self, EVALUATION, Elf, Source};

/// An executable or library.
pub struct Binary {
    /// Where it is.
    pub path: String,
    /// GNU build id in hex, empty if it has none.
    pub build_id: String,
    /// Addresses that its segments take, as stated in the file.
    addresses: Range<u64>,
    /// Once a sample has met it.
    code: Option<Code>,
    /// Addresses of the function that runs Python code, and of its parts.
    evaluation: OnceCell<Vec<Range<u64>>>,
}

impl Binary {
    /// Reads a file; `None` if it is not an ELF file or cannot be read (any more).
    pub fn read(path: &str) -> Option<Binary> {
        read_elf(path, |file| Binary::of(path, file))?
    }

    fn of(path: &str, file: &Elf<'_>) -> Option<Binary> {
        let start = file.segments().map(|segment| segment.address()).min()?;
        let end = file.segments().map(|segment| segment.address().saturating_add(segment.size())).max()?;
        Some(Binary {
            path: path.into(),
            build_id: symbols::build_id(file),
            addresses: start..end,
            code: None,
            evaluation: OnceCell::new(),
        })
    }

    /// Names the file in every run.
    pub fn identity(&self) -> &str {
        if self.build_id.is_empty() { &self.path } else { &self.build_id }
    }

    /// What must be added to addresses in the file where its lowest segment was mapped at `start`.
    pub fn bias(&self, start: u64) -> u64 {
        start.wrapping_sub(self.addresses.start & !4095)
    }

    /// What the instruction before an address (as stated in the file) does; `None` if that is not
    /// known.
    pub fn operand_before(&mut self, address: u64) -> Option<Operand> {
        self.code.get_or_insert_with(|| Code::read(&self.path)).operand_before(address)
    }

    /// Whether a return address (as stated in the file) is in the function that runs Python code.
    pub fn evaluates(&self, offset: u64) -> bool {
        let parts = self.evaluation.get_or_init(|| read_elf(&self.path, evaluation).unwrap_or_default());
        // The call before a return address may be its function's last instruction.
        offset.checked_sub(1).is_some_and(|address| parts.iter().any(|part| part.contains(&address)))
    }
}

/// Reads a file; `None` if it is not an ELF file or cannot be read.
fn read_elf<T>(path: &str, read: impl FnOnce(&Elf<'_>) -> T) -> Option<T> {
    let source = Source::open(Path::new(path))?;
    Some(read(&source.elf()?))
}

/// Where Python code is run. That function's symbol is exported, so that of most files not all
/// names need to be read; its parts, where a compiler split it, begin with the same name.
fn evaluation(file: &Elf<'_>) -> Vec<Range<u64>> {
    if !symbols::exports(file).any(|function| function.name == EVALUATION) {
        return Vec::new();
    }
    let parts = symbols::symbols(file).into_iter().filter(|function| function.name.starts_with(EVALUATION));
    parts.map(|part| part.start..part.start.saturating_add(part.bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_binary_is_none() {
        assert!(Binary::read("/proc/self/maps").is_none());
        assert!(Binary::read("/dev/null").is_none());
        assert!(Binary::read("/proc/self/exe").is_some());
    }
}
