//! A file that appears under its name only when it is whole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A private file (0600) written under a temporary name next to its target.
///
/// [`Replacement::commit`] renames it over the target; dropped before that, it is removed.
#[derive(Debug)]
pub(crate) struct Replacement {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl Replacement {
    /// Starts a file that will replace `target`.
    pub(crate) fn create(target: &Path) -> Result<Self> {
        let temporary = temporary_name(target);
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("replace", &temporary)(error));
            }
            _ => {}
        }
        // `create_new` never follows a link that another user left there.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(Error::io("create", &temporary))?;
        Ok(Replacement { file, temporary, target: target.to_owned(), committed: false })
    }

    /// Gives the finished file its name.
    pub(crate) fn commit(mut self) -> Result<()> {
        fs::rename(&self.temporary, &self.target).map_err(Error::io("write", &self.target))?;
        self.committed = true;
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.committed {
            // There is no caller to report a failure to, and readers ignore temporary names.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// `.NAME.tmp` next to `target`: no reader's `*.parquet` matches it.
fn temporary_name(target: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".tmp");
    target.with_file_name(name)
}
