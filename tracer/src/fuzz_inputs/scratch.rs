//! Where inputs that are files are put, and where the corpus is.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder in memory, gone with the value.
pub struct Scratch(TempDir);

impl Scratch {
    /// An empty one.
    pub fn new() -> Scratch {
        let in_memory = Path::new("/dev/shm");
        let folder = if in_memory.is_dir() { tempfile::tempdir_in(in_memory) } else { tempfile::tempdir() };
        Scratch(folder.expect("a folder for inputs"))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Puts a file there.
    pub fn put(&self, name: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        let folder = path.parent().expect("it is in the folder");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, bytes))
            .expect("there is room for an input");
        path
    }
}

/// The files of a target in a folder of `fuzz`, by name.
pub fn seeds(folder: &str, target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz")).join(folder).join(target);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let bytes = fs::read(entry.path()).expect("a file of the corpus");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect();
    found.sort();
    found
}
