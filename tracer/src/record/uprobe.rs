//! Where a function lies that `attach --uprobe library:function` names.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use memtrace_ebpf::Function;
use object::{Object, ObjectSegment, ObjectSymbol};

use crate::symbols::Source;

/// Looks in the file, or in what the process has mapped under that name (`libc.so.6`, or `libc`).
///
/// # Errors
/// No such file is mapped, or it has no such function.
pub fn find(text: &str, pid: u32) -> Result<Function> {
    let (library, function) = text.rsplit_once(':').context("write LIBRARY:FUNCTION, e.g. libc:malloc")?;
    let file = if library.contains('/') { PathBuf::from(library) } else { mapped(library, pid)? };
    let source = Source::open(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let elf = source.elf().with_context(|| format!("{} is no ELF file", file.display()))?;
    let symbol = elf
        .symbols()
        .chain(elf.dynamic_symbols())
        .find(|symbol| symbol.is_definition() && symbol.name() == Ok(function));
    let Some(symbol) = symbol else { bail!("{} has no function {function}", file.display()) };
    let address = symbol.address();
    let offset = elf.segments().find_map(|segment| {
        let inside = address.checked_sub(segment.address()).filter(|inside| *inside < segment.size())?;
        Some(segment.file_range().0 + inside)
    });
    let offset = offset.with_context(|| format!("{function} lies in no segment of {}", file.display()))?;
    Ok(Function { file, offset })
}

fn mapped(library: &str, pid: u32) -> Result<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).context("the process has ended")?;
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let is_it = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name == library || name.strip_prefix(library).is_some_and(|rest| rest.starts_with(['.', '-']))
    };
    let found = paths.into_iter().find(is_it);
    found.map(PathBuf::from).with_context(|| format!("process {pid} has no {library}"))
}
