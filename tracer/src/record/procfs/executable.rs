//! Programs that no probe can be loaded into.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memtrace_wire::preloading::{Preloading, is_sanitizer};
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{Endianness, ReadRef};
use rustix::process::{getegid, geteuid};

use super::environment::lacks_probe;
use crate::symbols::Source;

/// Of the program in this file.
pub fn preloading(program: &Path) -> Preloading {
    match of_format(program) {
        Preloading::Works if becomes_another(program) => Preloading::IsIgnored,
        known => known,
    }
}

/// As the format of the file has it: who owns it does not matter.
fn of_format(program: &Path) -> Preloading {
    let Some(source) = Source::open(program) else { return Preloading::Works };
    match source.elf() {
        Some(object::File::Elf32(_)) => Preloading::DoesHarm,
        Some(object::File::Elf64(elf)) if !has_dynamic_linker(&elf) => Preloading::IsIgnored,
        Some(object::File::Elf64(elf)) if needs_sanitizer(&elf).unwrap_or(false) => Preloading::DoesHarm,
        _ => Preloading::Works,
    }
}

/// True if one of the libraries that it needs (DT_NEEDED, elf(5)) is the runtime of a sanitizer.
fn needs_sanitizer<'a, R: ReadRef<'a>>(elf: &ElfFile64<'a, Endianness, R>) -> Option<bool> {
    let (endian, sections) = (elf.endian(), elf.elf_section_table());
    let (entries, strings) = sections.dynamic(endian, elf.data()).ok()??;
    let strings = sections.strings(endian, elf.data(), strings).ok()?;
    let needed = entries.iter().filter(|entry| entry.tag32(endian) == Some(object::elf::DT_NEEDED));
    let mut names = needed.filter_map(|entry| strings.get(entry.val32(endian)?).ok());
    Some(names.any(is_sanitizer))
}

fn has_dynamic_linker<'a, R: ReadRef<'a>>(elf: &ElfFile64<'a, Endianness, R>) -> bool {
    let mut headers = elf.elf_program_headers().iter();
    headers.any(|header| header.p_type(Endianness::Little) == object::elf::PT_INTERP)
}

/// True if it runs as another user or group: it is set-user-ID or set-group-ID.
fn becomes_another(program: &Path) -> bool {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    std::fs::metadata(program).is_ok_and(|file| {
        file.mode() & libc::S_ISUID != 0 && file.uid() != user
            || file.mode() & libc::S_ISGID != 0 && file.gid() != group
    })
}

/// The file that a command runs: as named, or found in PATH (execvp(3)).
pub fn program_of(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(command)).find(|place| place.is_file())
}

/// True if nothing can load a probe into the program that the process executes, or it was started
/// without one: no dynamic linker, one in secure-execution mode (AT_SECURE, ld.so(8)), or an
/// environment that does not name it.
pub fn cannot_load_probe(pid: u32, token: &str) -> bool {
    of_format(format!("/proc/{pid}/exe").as_ref()) == Preloading::IsIgnored
        || is_secure(&std::fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default())
        || lacks_probe(pid, token)
}

/// True if the auxiliary vector (getauxval(3)) has AT_SECURE set.
pub fn is_secure(vector: &[u8]) -> bool {
    let (words, _) = vector.as_chunks::<8>();
    let mut pairs =
        words.chunks_exact(2).map(|pair| (u64::from_le_bytes(pair[0]), u64::from_le_bytes(pair[1])));
    pairs.any(|(key, value)| key == libc::AT_SECURE && value != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_user_id_program_is_known_by_its_auxiliary_vector() {
        let vector = |secure: u64| {
            let words = [libc::AT_PAGESZ, 4096, libc::AT_SECURE, secure, libc::AT_NULL, 0];
            words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
        };
        assert!(is_secure(&vector(1)));
        assert!(!is_secure(&vector(0)));
        assert!(!is_secure(&vector(1)[..25]));
        assert!(!is_secure(&[]));
    }
}
