//! The directory of a trace that is being written.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::error::{Error, Result};

const DESCRIPTORS: &str = "/proc/self/fd";

/// Held open: all that is written goes there, whatever another user makes of its name meanwhile.
#[derive(Debug)]
pub struct Directory {
    _opened: File,
    path: PathBuf,
}

impl Directory {
    /// Opens it, made if it is not there, for its owner alone.
    ///
    /// # Errors
    /// [`Error::Link`] or [`Error::OfAnother`]: another user may have put it there.
    pub(crate) fn create(directory: &Path) -> Result<Directory> {
        let failed = || Error::io("create", directory);
        if fs::symlink_metadata(directory).is_ok_and(|found| found.is_symlink()) {
            return Err(Error::Link(directory.to_owned()));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed())?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits() as i32)
            .open(directory)
            .map_err(failed())?;
        if opened.metadata().map_err(failed())?.uid() != geteuid().as_raw() {
            return Err(Error::OfAnother(directory.to_owned()));
        }
        opened.set_permissions(Permissions::from_mode(0o700)).map_err(failed())?;
        let held = PathBuf::from(format!("{DESCRIPTORS}/{}", opened.as_raw_fd()));
        // Without /proc there is its name only.
        let path = if held.is_dir() { held } else { directory.to_owned() };
        Ok(Directory { _opened: opened, path })
    }

    /// Leads to it as long as this is held, in this process.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The name of a file in such a directory, for people.
pub(crate) fn shown(path: &Path) -> PathBuf {
    let held = path.ancestors().find(|ancestor| ancestor.parent() == Some(Path::new(DESCRIPTORS)));
    let named = held.and_then(|held| Some(fs::read_link(held).ok()?.join(path.strip_prefix(held).ok()?)));
    named.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_go_there_although_its_name_leads_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (place, moved, victim) =
            (folder.path().join("out"), folder.path().join("moved"), folder.path().join("victim"));
        let directory = Directory::create(&place).unwrap();
        fs::rename(&place, &moved).unwrap();
        fs::create_dir(&victim).unwrap();
        symlink(&victim, &place).unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        assert!(moved.join("file").exists() && !victim.join("file").exists());
        assert_eq!(shown(&directory.path().join("a/b")), moved.join("a/b"));
        assert_eq!(shown(&place), place);
    }

    #[test]
    fn it_is_no_link_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (place, link) = (folder.path().join("out"), folder.path().join("link"));
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
        symlink(&place, &link).unwrap();
        assert!(matches!(Directory::create(&link), Err(Error::Link(_))));
        Directory::create(&place).unwrap();
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, 0o700);
        if geteuid().is_root() {
            std::os::unix::fs::chown(&place, Some(65534), None).unwrap();
            assert!(matches!(Directory::create(&place), Err(Error::OfAnother(_))));
        }
    }
}
