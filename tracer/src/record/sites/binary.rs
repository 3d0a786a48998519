//! An ELF file as stacks need it: which function an address lies in.

use std::cell::OnceCell;
use std::fs::File;
use std::ops::Range;

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

/// The function that runs Python code; its parts, where a compiler split it, begin with the same name.
const EVALUATION: &str = "_PyEval_EvalFrameDefault";

/// An executable or library.
pub struct Binary {
    /// Where it is.
    pub path: String,
    /// GNU build id in hex, empty if it has none.
    pub build_id: String,
    /// Addresses that its segments take, as stated in the file.
    addresses: Range<u64>,
    /// Looked up where a name is asked for.
    functions: OnceCell<Vec<Function>>,
    evaluates: OnceCell<bool>,
}

struct Function {
    start: u64,
    bytes: u64,
    name: Box<str>,
}

impl Binary {
    /// Reads a file; `None` if it is not an ELF file or cannot be read (any more).
    pub fn read(path: &str) -> Option<Binary> {
        look_into(path, |file| Binary::of(path, file))?
    }

    fn of(path: &str, file: &Elf<'_>) -> Option<Binary> {
        let start = file.segments().map(|segment| segment.address()).min()?;
        let end = file.segments().map(|segment| segment.address().saturating_add(segment.size())).max()?;
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Binary {
            path: path.into(),
            build_id: file.build_id().ok().flatten().map(hex).unwrap_or_default(),
            addresses: start..end,
            functions: OnceCell::new(),
            evaluates: OnceCell::new(),
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

    /// Whether a return address is in the function that runs Python code. Its symbol is exported, so that most
    /// files need not be asked for all their names.
    pub fn evaluates(&self, offset: u64) -> bool {
        let defines = |file: &Elf<'_>| file.dynamic_symbols().any(|symbol| symbol.name() == Ok(EVALUATION));
        *self.evaluates.get_or_init(|| look_into(&self.path, defines).unwrap_or(false))
            && self.function(offset).is_some_and(|name| name.starts_with(EVALUATION))
    }

    /// The function that a return address (as stated in the file) returns into, as the linker knows it.
    pub fn function(&self, offset: u64) -> Option<&str> {
        let functions = self.functions.get_or_init(|| look_into(&self.path, functions).unwrap_or_default());
        // The call before a return address may be its function's last instruction.
        let address = offset.checked_sub(1)?;
        let after = functions.partition_point(|function| function.start <= address);
        let function = functions.get(after.checked_sub(1)?)?;
        (function.bytes == 0 || address - function.start < function.bytes).then_some(&function.name)
    }
}

type Elf<'a> = object::File<'a, &'a ReadCache<File>>;

/// Looks into a file; `None` if it is not an ELF file or cannot be read.
fn look_into<T>(path: &str, look: impl FnOnce(&Elf<'_>) -> T) -> Option<T> {
    // Opening a pipe would wait for its writer.
    std::fs::metadata(path).ok().filter(|file| file.is_file())?;
    let cache = ReadCache::new(File::open(path).ok()?);
    Some(look(&object::File::parse(&cache).ok()?))
}

/// All functions by address; of several names for one, the plainest.
fn functions(file: &Elf<'_>) -> Vec<Function> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let mut functions: Vec<Function> = symbols
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| {
            let (start, bytes) = (symbol.address(), symbol.size());
            Some(Function { start, bytes, name: symbol.name().ok()?.into() })
        })
        .collect();
    let plainness = |name: &str| (name.bytes().take_while(|byte| *byte == b'_').count(), name.len());
    functions.sort_by(|a, b| {
        let key = |function: &Function| (function.start, plainness(&function.name));
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    functions.dedup_by_key(|function| function.start);
    functions
}

/// A linker's name as its programmer wrote it.
pub fn demangle(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    // What a compiler split off (.cold, .part.0, .constprop.0) is still that function.
    let plain = name.split_once('.').map_or(name, |(plain, _)| plain);
    // A C function called `w` is no mangled wchar_t.
    let mangled = plain.starts_with("_Z").then(|| cpp_demangle::Symbol::new(plain).ok()).flatten();
    mangled.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| plain.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_their_programmer_wrote_them() {
        assert_eq!(demangle("w"), "w");
        assert_eq!(demangle("msort_with_tmp.part.0"), "msort_with_tmp");
        assert_eq!(demangle("_ZN4shop5orderEm"), "shop::order(unsigned long)");
        assert_eq!(demangle("_ZN5sites5Store4keep17h0123456789abcdefE"), "sites::Store::keep");
    }

    #[test]
    fn what_is_no_binary_is_none() {
        assert!(Binary::read("/proc/self/maps").is_none());
        assert!(Binary::read("/dev/null").is_none());
        assert!(Binary::read("/proc/self/exe").is_some());
    }
}
