//! Programs that no probe can be loaded into.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memtrace_wire::preloading::{Preloading, is_sanitizer, other_c_library};
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{Endianness, ReadRef};
use rustix::process::{getegid, geteuid};

use super::environment::lacks_probe;
use crate::symbols::Source;

/// What keeps the probe out of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// There is no dynamic linker that would load it.
    IsStatic,
    /// The program runs as another user or group.
    BecomesAnother,
    /// It is a 32-bit program.
    Is32Bit,
    /// It is linked with a sanitizer that the probe would break.
    HasSanitizer,
    /// It is linked with this C library, which lacks what the probe calls of glibc.
    HasOtherLibrary(&'static str),
}

impl Obstacle {
    fn preloading(self) -> Preloading {
        match self {
            Obstacle::IsStatic | Obstacle::BecomesAnother => Preloading::IsIgnored,
            Obstacle::Is32Bit | Obstacle::HasSanitizer | Obstacle::HasOtherLibrary(_) => Preloading::DoesHarm,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Obstacle::IsStatic => out.write_str("statically linked"),
            Obstacle::BecomesAnother => out.write_str("set-user-ID"),
            Obstacle::Is32Bit => out.write_str("32-bit"),
            Obstacle::HasSanitizer => out.write_str("linked with a sanitizer"),
            Obstacle::HasOtherLibrary(name) => write!(out, "linked with {name} instead of glibc"),
        }
    }
}

/// Of the program in this file.
pub fn preloading(program: &Path) -> Preloading {
    obstacle(program).map_or(Preloading::Works, Obstacle::preloading)
}

/// A program as notes name it: with what keeps the probe out of it, or `otherwise` where its file
/// does not say.
pub fn described(program: &str, otherwise: &str) -> String {
    match program_of(OsStr::new(program)).and_then(|file| obstacle(&file)) {
        Some(obstacle) => format!("{program} ({obstacle})"),
        None => format!("{program} ({otherwise})"),
    }
}

/// `None` for scripts and what cannot be read.
fn obstacle(program: &Path) -> Option<Obstacle> {
    of_format(program).or_else(|| becomes_another(program).then_some(Obstacle::BecomesAnother))
}

/// As the format of the file has it: who owns it does not matter.
fn of_format(program: &Path) -> Option<Obstacle> {
    let source = Source::open(program)?;
    let elf = match source.elf()? {
        object::File::Elf32(_) => return Some(Obstacle::Is32Bit),
        object::File::Elf64(elf) => elf,
        _ => return None,
    };
    let Some(linker) = dynamic_linker(&elf) else { return Some(Obstacle::IsStatic) };
    match other_c_library(linker) {
        Some(name) => Some(Obstacle::HasOtherLibrary(name)),
        None => needs_sanitizer(&elf).unwrap_or(false).then_some(Obstacle::HasSanitizer),
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

/// Its path (PT_INTERP, elf(5)), empty if it cannot be read; `None` if the program names none.
fn dynamic_linker<'a, R: ReadRef<'a>>(elf: &ElfFile64<'a, Endianness, R>) -> Option<&'a [u8]> {
    let endian = elf.endian();
    let mut headers = elf.elf_program_headers().iter();
    let header = headers.find(|header| header.p_type(endian) == object::elf::PT_INTERP)?;
    // The kernel executes no program with a longer one.
    let readable = header.p_filesz(endian) <= libc::PATH_MAX as u64;
    Some(readable.then(|| header.data(endian, elf.data()).ok()).flatten().unwrap_or_default())
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
/// without one: by the format of its file, by a dynamic linker in secure-execution mode (AT_SECURE,
/// ld.so(8)), or by an environment that does not name it.
pub fn cannot_load_probe(pid: u32, token: &str) -> bool {
    of_format(format!("/proc/{pid}/exe").as_ref()).is_some()
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
