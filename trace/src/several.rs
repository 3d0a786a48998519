//! The traces in a directory: of the ranks of a job, of the tasks of an array, of a campaign.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files;
use crate::read::limits;

/// How deep traces may lie: `traces/HOST/JOB/RANK`.
const DEPTH_MAX: usize = 3;

/// The traces in `directory`, which may be one itself. Names are in order, numbers in them by their
/// value. Links are not followed, hidden directories and those of other users are left out.
///
/// # Errors
/// [`Error::Io`] if a directory cannot be read, [`Error::NotATrace`] if there is no trace, and
/// [`Error::Excessive`] if there are too many directories.
pub fn traces_in(directory: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    let directory = directory.as_ref();
    if files::hold_trace(directory) {
        return Ok(vec![directory.to_owned()]);
    }
    let mut search = Search { traces: Vec::new(), seen: 0, top: directory };
    search.look_into(directory, DEPTH_MAX)?;
    if search.traces.is_empty() {
        return Err(Error::NotATrace(directory.to_owned()));
    }
    search.traces.sort_by_cached_key(|path| ordered(&path.to_string_lossy()));
    Ok(search.traces)
}

struct Search<'a> {
    traces: Vec<PathBuf>,
    /// Directories looked at.
    seen: u64,
    top: &'a Path,
}

impl Search<'_> {
    fn look_into(&mut self, directory: &Path, depth: usize) -> Result<()> {
        for entry in files::entries(directory)? {
            let entry = entry.map_err(Error::io("read", directory))?;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_hidden || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            self.seen += 1;
            limits::at_most(self.top, "the directories in it", self.seen, limits::DIRECTORIES)?;
            let path = entry.path();
            if files::hold_trace(&path) {
                self.traces.push(path);
            } else if depth > 1 {
                match self.look_into(&path, depth - 1) {
                    // Another user's, or gone meanwhile: it holds none for this user.
                    Err(Error::Io { source, .. })
                        if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }
}

/// Sorts as the name does, but `9` before `10`.
fn ordered(name: &str) -> String {
    const DIGITS: usize = 20;
    let (mut key, mut number) = (String::new(), String::new());
    for character in name.chars().chain(['\0']) {
        if character.is_ascii_digit() {
            number.push(character);
            continue;
        }
        if !number.is_empty() {
            key += &format!("{number:0>DIGITS$}");
            number.clear();
        }
        key.push(character);
    }
    key
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn traces_are_found_in_folders_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        assert!(matches!(traces_in(top), Err(Error::NotATrace(_))), "it is empty");
        for name in ["7.10", "7.9", "node2/8/1", ".7.1.replaced", "a/b/c/d", "notes"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        for name in ["7.10", "7.9", "node2/8/1", ".7.1.replaced", "a/b/c/d"] {
            fs::write(top.join(name).join("meta.json"), "{}").unwrap();
        }
        symlink(top.join("7.9"), top.join("last")).unwrap();
        symlink(top, top.join("notes/circle")).unwrap();
        let names = |found: Vec<PathBuf>| -> Vec<String> {
            found.iter().map(|path| path.strip_prefix(top).unwrap().display().to_string()).collect()
        };
        assert_eq!(names(traces_in(top).unwrap()), ["7.9", "7.10", "node2/8/1"]);
        assert_eq!(traces_in(top.join("7.9")).unwrap(), [top.join("7.9")], "it is one");
        assert!(matches!(traces_in(top.join("nowhere")), Err(Error::Io { .. })));
    }
}
