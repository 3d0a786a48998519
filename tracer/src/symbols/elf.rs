//! ELF files, read through a descriptor: a file that is cut short meanwhile gives an error, where a
//! mapping would give a signal.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use object::{Object, ReadRef};

/// A file that is there, with what was read of it.
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    cache: ReadCache<File>,
}

/// A parsed file.
pub type Elf<'a> = object::File<'a, &'a ReadCache<File>>;

impl Source {
    /// Opens a regular file.
    pub fn open(path: &Path) -> Option<Source> {
        // Opening a pipe would wait for its writer.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
        let regular = file.metadata().is_ok_and(|about| about.is_file());
        regular.then(|| Source { path: path.into(), cache: ReadCache::new(file) })
    }

    /// So many of its bytes from an offset on; `None` if there are not as many.
    pub fn bytes(&self, offset: u64, count: u64) -> Option<Vec<u8>> {
        (&self.cache).read_bytes_at(offset, count).ok().map(<[u8]>::to_vec)
    }

    /// Its headers; `None` if it is no ELF file.
    pub fn elf(&self) -> Option<Elf<'_>> {
        object::File::parse(&self.cache).ok()
    }
}

/// The GNU build id in hex, empty if there is none.
pub fn build_id<'a>(elf: &impl Object<'a>) -> String {
    elf.build_id().ok().flatten().map(hex).unwrap_or_default()
}

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
