//! The code of an ELF file, as samples of a program's time need it: which memory the instruction
//! that was executed before an address has touched.

use std::ops::Range;
use std::path::Path;

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use memtrace_perf::{Function, Operand};
use object::{Object, ObjectSection, ObjectSegment};
use rustc_hash::FxHashMap;

use crate::symbols::{self, Elf, Source};

/// Larger tables of functions are not read.
const TABLE_MOST: u64 = 256 << 20;
/// Linkers leave a few entries that functions have in common; where there are more, none are read.
const COMMON_MOST: usize = 1 << 16;
/// Longer functions are not decoded.
const FUNCTION_MOST: u64 = 1 << 20;
/// So much code is kept decoded.
const KEPT_MOST: u64 = 64 << 20;

/// See the module.
#[derive(Default)]
pub struct Code {
    /// Where the file is.
    path: String,
    /// Functions by address, as `.eh_frame` and the symbol tables have them.
    functions: Vec<Range<u64>>,
    /// Addresses of segments, and their offsets in the file.
    segments: Vec<(Range<u64>, u64)>,
    /// Functions that samples have met, by where they begin; `None` for one that cannot be read.
    decoded: FxHashMap<u64, Option<Function>>,
    /// Bytes of these.
    kept: u64,
    /// What was found before.
    known: FxHashMap<u64, Option<Operand>>,
}

impl Code {
    /// Of a file; without functions if it cannot be read.
    pub fn read(path: &str) -> Code {
        let empty = Code { path: path.into(), ..Code::default() };
        let Some(source) = Source::open(Path::new(path)) else { return empty };
        let Some(file) = source.elf() else { return empty };
        let segments = file.segments().map(|segment| {
            let start = segment.address();
            (start..start.saturating_add(segment.size()), segment.file_range().0)
        });
        Code { functions: functions(&file), segments: segments.collect(), ..empty }
    }

    /// What the instruction does that was executed before the one at this address; `None` if that is
    /// not known.
    pub fn operand_before(&mut self, address: u64) -> Option<Operand> {
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        let found = self.function(address).and_then(|function| function.before(address));
        self.known.insert(address, found);
        found
    }

    fn function(&mut self, address: u64) -> Option<&Function> {
        let bounds = |function: &Range<u64>| (function.start, function.end - function.start);
        let range = symbols::innermost(&self.functions, address, bounds)?.clone();
        if self.kept > KEPT_MOST {
            self.decoded.clear();
            self.kept = 0;
        }
        if !self.decoded.contains_key(&range.start) {
            let code = self.bytes(&range);
            self.kept += range.end - range.start;
            self.decoded.insert(range.start, code.map(|code| Function::new(range.start, code)));
        }
        self.decoded.get(&range.start)?.as_ref()
    }

    /// The bytes of a function. Of its headers nothing is read again: there may be many megabytes.
    fn bytes(&self, function: &Range<u64>) -> Option<Vec<u8>> {
        let length = function.end - function.start;
        let (addresses, offset) =
            self.segments.iter().find(|(addresses, _)| addresses.contains(&function.start))?;
        let offset = offset.checked_add(function.start - addresses.start)?;
        (length <= FUNCTION_MOST).then(|| Source::open(Path::new(&self.path))?.bytes(offset, length))?
    }
}

fn functions(file: &Elf<'_>) -> Vec<Range<u64>> {
    let mut functions = unwound(file).unwrap_or_default();
    // Assembly may have no entries in `.eh_frame`.
    let symbols = symbols::symbols(file).into_iter().filter(|symbol| symbol.bytes > 0);
    functions.extend(symbols.map(|symbol| symbol.start..symbol.start.saturating_add(symbol.bytes)));
    functions.sort_by_key(|function| (function.start, function.end));
    functions.dedup();
    functions
}

fn unwound(file: &Elf<'_>) -> Option<Vec<Range<u64>>> {
    let section = file.section_by_name(".eh_frame").filter(|section| section.size() <= TABLE_MOST)?;
    let table = EhFrame::new(section.data().ok()?, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    // Thousands of functions have one entry in common.
    let mut common = FxHashMap::default();
    let mut functions = Vec::new();
    let mut entries = table.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        if common.len() > COMMON_MOST {
            break;
        }
        let function = partial.parse(|table, bases, offset| {
            common.entry(offset.0).or_insert_with(|| table.cie_from_offset(bases, offset)).clone()
        });
        if let Ok(function) = function {
            let start = function.initial_address();
            functions.push(start..start.saturating_add(function.len()));
        }
    }
    Some(functions)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::record::procfs::modules;

    #[test]
    fn functions_of_this_program_have_its_bytes() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
        let own = std::env::current_exe().expect("it has a path").to_string_lossy().into_owned();
        let modules = modules::parse(&maps);
        let module = modules.iter().find(|module| module.path == own).expect("it is mapped");
        let code = Code::read(&own);
        let first = code.segments.iter().map(|(addresses, _)| addresses.start).min().expect("it has some");
        let memory = File::open("/proc/self/mem").expect("a process may read its own");
        let mut compared = 0;
        for function in code.functions.iter().filter(|function| function.end - function.start > 64).take(500)
        {
            let mut there = vec![0; (function.end - function.start) as usize];
            let at = module.start - (first & !4095) + function.start;
            memory.read_exact_at(&mut there, at).expect("it is mapped");
            assert_eq!(code.bytes(function), Some(there));
            compared += 1;
        }
        assert_eq!(compared, 500);
    }

    #[test]
    fn most_functions_of_this_program_are_decoded() {
        let own = std::env::current_exe().expect("it has a path").to_string_lossy().into_owned();
        let mut code = Code::read(&own);
        let starts: Vec<u64> = code.functions.iter().map(|function| function.start).take(1000).collect();
        let mut told = 0;
        for start in &starts {
            let known = (4..64).filter(|offset| code.operand_before(start + offset).is_some());
            told += usize::from(known.count() >= 4);
        }
        assert!(told > 800, "{told}");
    }

    #[test]
    fn what_is_no_binary_has_no_functions() {
        assert_eq!(Code::read("/proc/self/maps").operand_before(0), None);
    }
}
