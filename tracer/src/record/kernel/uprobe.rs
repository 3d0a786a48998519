//! Where a function lies that `attach --uprobe library:function` names.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use memtrace_ebpf::Function;
use object::elf::STT_GNU_IFUNC;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolFlags, SymbolKind};

use crate::record::procfs::maps;
use crate::symbols::Source;

/// Looks in the file, or in what the process has mapped under that name (`libc.so.6`, or `libc`).
///
/// # Errors
/// No such file is mapped, or it has no such function.
pub fn find(text: &str, pid: u32) -> Result<Function> {
    let (library, function) = text.rsplit_once(':').context("write LIBRARY:FUNCTION, e.g. libc:malloc")?;
    let named = if library.contains('/') { std::path::absolute(library)? } else { mapped(library, pid)? };
    // The process may see other files under the same names (mount_namespaces(7)).
    let file = PathBuf::from(format!("/proc/{pid}/root")).join(named.strip_prefix("/").unwrap_or(&named));
    let source = Source::open(&file).with_context(|| format!("cannot read {}", named.display()))?;
    let elf = source.elf().with_context(|| format!("{} is no ELF file", named.display()))?;
    let all = elf.symbols().chain(elf.dynamic_symbols());
    let symbols: Vec<_> =
        all.filter(|symbol| !symbol.is_undefined() && symbol.name() == Ok(function)).collect();
    let Some(symbol) = symbols.first() else { bail!("{} has no function {function}", named.display()) };
    // The place of an indirect function is that of the function which chooses it, while it is
    // loaded (elf.h). Older versions of a symbol may be plain ones.
    let is_indirect =
        |flags| matches!(flags, SymbolFlags::Elf { st_info, .. } if st_info & 0xf == STT_GNU_IFUNC);
    let indirect = symbols.iter().any(|symbol| is_indirect(symbol.flags()));
    if indirect || symbol.kind() == SymbolKind::Data {
        let what = if indirect { "chosen among several when it is loaded" } else { "data" };
        bail!("{function} of {} cannot be probed: it is {what}", named.display());
    }
    let address = symbol.address();
    let offset = elf.segments().find_map(|segment| {
        let inside = address.checked_sub(segment.address()).filter(|inside| *inside < segment.size())?;
        Some(segment.file_range().0 + inside)
    });
    let offset = offset.with_context(|| format!("{function} lies in no segment of {}", named.display()))?;
    Ok(Function { file, offset })
}

fn mapped(library: &str, pid: u32) -> Result<PathBuf> {
    let text = maps::read(pid);
    let paths = maps::parse(&text).map(|listed| listed.path).filter(|path| path.starts_with('/'));
    let is_it = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name == library || name.strip_prefix(library).is_some_and(|rest| rest.starts_with(['.', '-']))
    };
    let found = paths.into_iter().find(is_it);
    found.map(PathBuf::from).with_context(|| format!("process {pid} has no {library}"))
}
