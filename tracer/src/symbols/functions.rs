//! Which function an address lies in, as the linker knows it.

use std::ffi::CStr;

use object::{Object, ObjectSection};

/// A function as a symbol table has it.
#[derive(Debug, Clone, Copy)]
pub struct Function<'a> {
    /// Its address, as stated in the file.
    pub start: u64,
    /// Its length; 0: not known.
    pub bytes: u64,
    /// Its name.
    pub name: &'a str,
}

/// A function may have others inside it (labels that assembly calls functions): this many are
/// skipped.
const NESTED_MAX: usize = 8;

/// Functions by address; of several names for one, the plainest.
pub struct Functions<'a>(Vec<Function<'a>>);

/// Runs Python code: a file that exports it is CPython.
pub const EVALUATION: &str = "_PyEval_EvalFrameDefault";

/// The functions in a file's two symbol tables, in no order.
pub fn symbols<'a>(file: &impl Object<'a>) -> Vec<Function<'a>> {
    table(file, ".symtab", ".strtab").chain(exports(file)).collect()
}

/// The functions that a file exports or is linked to by name, as [`symbols`] has them.
pub fn exports<'a, F: Object<'a>>(file: &F) -> impl Iterator<Item = Function<'a>> + use<'a, F> {
    table(file, ".dynsym", ".dynstr")
}

/// Read whole: read for each of a hundred thousand names, a file would be read as often.
fn table<'a, F: Object<'a>>(
    file: &F,
    entries: &str,
    names: &str,
) -> impl Iterator<Item = Function<'a>> + use<'a, F> {
    let section = |name| file.section_by_name(name)?.data().ok();
    let table = section(entries).zip(section(names));
    table
        .into_iter()
        .flat_map(|(entries, names)| entries.chunks_exact(24).filter_map(move |entry| symbol(entry, names)))
}

/// An Elf64_Sym that is a function and has its code here (elf(5)).
fn symbol<'a>(entry: &[u8], names: &'a [u8]) -> Option<Function<'a>> {
    const STT_FUNC: u8 = 2;
    const STT_GNU_IFUNC: u8 = 10;
    const SHN_UNDEF: [u8; 2] = [0, 0];
    let (name, rest) = entry.split_first_chunk()?;
    let (&[kind, _, section @ ..], rest) = rest.split_first_chunk::<4>()?;
    if !matches!(kind & 15, STT_FUNC | STT_GNU_IFUNC) || section == SHN_UNDEF {
        return None;
    }
    let (value, rest) = rest.split_first_chunk()?;
    let name = CStr::from_bytes_until_nul(names.get(u32::from_le_bytes(*name) as usize..)?).ok()?;
    let bytes = u64::from_le_bytes(*rest.first_chunk()?);
    Some(Function { start: u64::from_le_bytes(*value), bytes, name: name.to_str().ok()? })
}

impl<'a> Functions<'a> {
    /// Of what [`symbols`] gives.
    pub fn new(symbols: impl Iterator<Item = Function<'a>>) -> Functions<'a> {
        let mut functions: Vec<Function> = symbols.collect();
        let plainness = |name: &str| (name.bytes().take_while(|byte| *byte == b'_').count(), name.len());
        functions.sort_by(|a, b| {
            let key = |function: &Function<'a>| (function.start, plainness(function.name), function.name);
            key(a).cmp(&key(b))
        });
        functions.dedup_by_key(|function| function.start);
        Functions(functions)
    }

    /// The name of the function that an instruction belongs to.
    pub fn find(&self, address: u64) -> Option<&'a str> {
        let after = self.0.partition_point(|function| function.start <= address);
        let (first, ..) = self.0[..after].split_last()?;
        if first.bytes == 0 {
            return Some(first.name);
        }
        let bounds = |function: &Function<'a>| (function.start, function.bytes);
        innermost(&self.0[..after], address, bounds).map(|function| function.name)
    }
}

/// Of functions in the order of their addresses, the innermost around one; `bounds` are where a
/// function begins and its length.
pub fn innermost<T>(functions: &[T], address: u64, bounds: impl Fn(&T) -> (u64, u64)) -> Option<&T> {
    let after = functions.partition_point(|function| bounds(function).0 <= address);
    let inside = |function: &&T| {
        let (start, bytes) = bounds(function);
        address - start < bytes
    };
    functions[..after].iter().rev().take(NESTED_MAX).find(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_innermost_function_around_it_by_its_plainest_name() {
        let table =
            [(16, 64, "__outer"), (16, 64, "outer"), (32, 4, "label"), (96, 0, "open"), (128, 8, "last")];
        let functions =
            Functions::new(table.into_iter().map(|(start, bytes, name)| Function { start, bytes, name }));
        let found = [15, 16, 31, 32, 36, 79, 80, 96, 127, 135, 136].map(|address| functions.find(address));
        let [inner, outer, open, last] = ["label", "outer", "open", "last"].map(Some);
        assert_eq!(found, [None, outer, outer, inner, outer, outer, None, open, open, last, None]);
    }

    proptest::proptest! {
        /// Whatever a table contains, a name comes from it and its function begins at or before the
        /// address.
        #[test]
        fn any_table_is_searched(table: Vec<(u64, u64)>, address: u64) {
            let symbols = table.iter().map(|&(start, bytes)| Function { start, bytes, name: "f" });
            let functions = Functions::new(symbols);
            let found = functions.find(address).is_some();
            let possible = table.iter().any(|(start, bytes)| {
                *start <= address && (*bytes == 0 || address - start < *bytes)
            });
            proptest::prop_assert!(possible || !found);
        }
    }
}
