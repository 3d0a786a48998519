//! Executables and libraries of a process, from /proc/PID/maps, with their build ids.

use std::fs::File;
use std::os::unix::fs::FileExt;

use memtrace_trace::rows::ModuleRow;

use super::maps::{self, Listed};

/// The files mapped executable in a text of /proc/PID/maps (proc_pid_maps(5)), each from its lowest
/// to its highest address. `process` is left 0.
pub fn parse(text: &str) -> Vec<ModuleRow> {
    let mut modules: Vec<(ModuleRow, bool)> = Vec::new();
    for Listed { start, end, rights, path, .. } in maps::parse(text).filter(|line| line.path.starts_with('/'))
    {
        let executable = rights.contains('x');
        match modules.last_mut() {
            Some((last, code)) if last.path == path => {
                last.end = end;
                *code |= executable;
            }
            _ => {
                let row = ModuleRow { process: 0, path: path.into(), start, end, build_id: String::new() };
                modules.push((row, executable));
            }
        }
    }
    modules.retain(|(_, code)| *code);
    let with_id = |(module, _): (ModuleRow, bool)| ModuleRow {
        build_id: build_id(&module.path).unwrap_or_default(),
        ..module
    };
    modules.into_iter().map(with_id).collect()
}

/// The GNU build id of an ELF64 file, in hex: the NT_GNU_BUILD_ID note (elf(5)).
pub fn build_id(path: &str) -> Option<String> {
    const PT_NOTE: u32 = 4;
    const NT_GNU_BUILD_ID: u32 = 3;
    let file = File::open(path).ok()?;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, entry, count) = (u64_at(&header, 32)?, u16_at(&header, 54)?, u16_at(&header, 56)?);
    for index in 0..u64::from(count) {
        let mut program = [0; 56];
        file.read_exact_at(&mut program, table.checked_add(index * u64::from(entry))?).ok()?;
        if u32_at(&program, 0)? != PT_NOTE {
            continue;
        }
        let mut notes = vec![0; u64_at(&program, 32)?.min(1 << 16) as usize];
        file.read_exact_at(&mut notes, u64_at(&program, 8)?).ok()?;
        let mut rest = notes.as_slice();
        while let (Some(name), Some(length), Some(kind)) = (u32_at(rest, 0), u32_at(rest, 4), u32_at(rest, 8))
        {
            let start = 12 + (name as usize).next_multiple_of(4);
            let content = rest.get(start..start.checked_add(length as usize)?)?;
            if kind == NT_GNU_BUILD_ID && rest.get(12..16) == Some(b"GNU\0") {
                return Some(content.iter().map(|byte| format!("{byte:02x}")).collect());
            }
            rest = rest.get(start + (length as usize).next_multiple_of(4)..)?;
        }
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_its_executable_with_a_build_id() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
        let modules = parse(&maps);
        let own = std::env::current_exe().expect("the executable has a path");
        let libc = modules.iter().find(|module| module.path.contains("libc.so")).expect("libc is loaded");
        assert!(modules.iter().any(|module| module.path == own.to_string_lossy()));
        assert!(libc.start < libc.end);
        assert!(libc.build_id.len() >= 32, "{libc:?}");
    }

    #[test]
    fn odd_lines_are_passed_over() {
        assert!(parse("garbage\n\n7f-80 r-xp 0 0:0 0\nzz-qq r-xp 0 0:0 0 /x\n").is_empty());
    }
}
