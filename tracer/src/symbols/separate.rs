//! Debug information kept in a file of its own (GDB manual, "Separate Debug Files").

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use object::Object;

use super::elf::{self, Elf, Source};

/// Where distributions install it.
const FOLDER: &str = "/usr/lib/debug";
/// A larger file is not read whole for its checksum.
const CHECKED_MAX: u64 = 1 << 30;

/// The file that goes with a binary: by its build id, or by the name and checksum that the binary
/// has of it.
pub fn find(path: &Path, binary: &Elf<'_>) -> Option<Source> {
    by_build_id(&elf::build_id(binary)).or_else(|| by_link(path, binary))
}

/// The file that several debug files share their types in (dwz(1)).
pub fn shared(debug: &Source) -> Option<Source> {
    let (name, build_id) = debug.elf()?.gnu_debugaltlink().ok().flatten()?;
    let build_id = elf::hex(build_id);
    let linked = debug.path.parent()?.join(std::str::from_utf8(name).ok()?);
    by_build_id(&build_id).or_else(|| Source::open(&linked).filter(|file| has_build_id(file, &build_id)))
}

fn by_build_id(build_id: &str) -> Option<Source> {
    let (first, rest) = build_id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    let path = format!("{FOLDER}/.build-id/{first}/{rest}.debug");
    Source::open(Path::new(&path)).filter(|file| has_build_id(file, build_id))
}

fn has_build_id(file: &Source, build_id: &str) -> bool {
    file.elf().is_some_and(|elf| elf::build_id(&elf) == build_id)
}

fn by_link(path: &Path, binary: &Elf<'_>) -> Option<Source> {
    let (name, checksum) = binary.gnu_debuglink().ok().flatten()?;
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty() && !name.contains('/'))?;
    let real = fs::canonicalize(path).ok()?;
    let matches = |candidate: &PathBuf| *candidate != real && crc(candidate).is_ok_and(|crc| crc == checksum);
    let found = places(real.parent()?, name).into_iter().find(matches)?;
    Source::open(&found)
}

/// Where a linked file may be, in the order in which GDB looks.
fn places(folder: &Path, name: &str) -> [PathBuf; 3] {
    let system = Path::new(FOLDER).join(folder.strip_prefix("/").unwrap_or(folder));
    [folder.join(name), folder.join(".debug").join(name), system.join(name)]
}

fn crc(path: &Path) -> io::Result<u32> {
    let about = fs::metadata(path)?;
    if !about.is_file() || about.len() > CHECKED_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (mut file, mut block) = (File::open(path)?.take(CHECKED_MAX), vec![0; 1 << 16]);
    let mut crc = crc32fast::Hasher::new();
    loop {
        match file.read(&mut block)? {
            0 => return Ok(crc.finalize()),
            length => crc.update(&block[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_file_is_looked_for_where_gdb_looks() {
        let places = places(Path::new("/opt/app/bin"), "app.debug");
        let expected = ["/opt/app/bin/app.debug", "/opt/app/bin/.debug/app.debug"];
        assert_eq!(places[..2], expected.map(PathBuf::from));
        assert_eq!(places[2], PathBuf::from("/usr/lib/debug/opt/app/bin/app.debug"));
    }

    #[test]
    fn odd_build_ids_lead_nowhere() {
        for id in ["", "a", "ab", "é", "ab/../../../../etc/passwd"] {
            assert!(by_build_id(id).is_none(), "{id}");
        }
    }
}
