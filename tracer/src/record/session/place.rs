//! The directory that a recording makes its trace in, and the trace that it replaces there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::outcome::Failure;
use crate::live_protocol::is_recorded;

/// Dropped before the recording has begun, it leaves the directory as it was.
pub struct Place {
    output: PathBuf,
    existed: bool,
    earlier: Option<Earlier>,
    begun: bool,
    /// Held until then: recorders that start together with one directory would clear it for each other.
    _lock: Option<File>,
}

impl Place {
    /// Makes sure that nothing is in the way; with `replace` a trace may be.
    pub fn prepare(output: &Path, replace: bool) -> Result<Place, Failure> {
        let earlier = Earlier::move_aside(output, replace)?;
        let existed = earlier.is_none() && fs::symlink_metadata(output).is_ok();
        let lock = lock(output)?;
        Ok(Place { output: output.to_owned(), existed, earlier, begun: false, _lock: lock })
    }

    /// The recording has begun: its trace stays, and what it replaces goes.
    pub fn keep(mut self) {
        self.begun = true;
        if let Some(earlier) = self.earlier.take() {
            earlier.remove();
        }
    }
}

/// A trace that is to be replaced. It waits under another name; dropped, it gets its own back.
pub struct Earlier {
    output: PathBuf,
    aside: PathBuf,
}

impl Earlier {
    /// The trace in a directory, if there is anything; only with `replace` it may be there.
    pub fn move_aside(output: &Path, replace: bool) -> Result<Option<Earlier>, Failure> {
        if !fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_some()) {
            return Ok(None);
        }
        if replace {
            return Ok(Some(Earlier { output: output.to_owned(), aside: move_aside(output)? }));
        }
        let advice =
            if memtrace_trace::is_trace(output) { ", or replace the trace with --force" } else { "" };
        Err(refusal(output, &format!("exists and is not empty; choose another directory with -o{advice}")))
    }

    /// Removes it. It no longer bears its name; all that a failure leaves is a hidden directory.
    pub fn remove(mut self) {
        let _ = fs::remove_dir_all(std::mem::take(&mut self.aside));
    }
}

impl Drop for Earlier {
    fn drop(&mut self) {
        if !self.aside.as_os_str().is_empty() {
            let _ = fs::rename(&self.aside, &self.output);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.begun {
            return;
        }
        // What cannot be removed stays; the recording has failed for a reason that is said elsewhere.
        if self.existed {
            let _ = empty(&self.output);
        } else {
            let _ = fs::remove_dir_all(&self.output);
        }
    }
}

/// Makes the directory if it is missing, and locks it. Where that fails, opening the trace says why.
fn lock(output: &Path) -> Result<Option<File>, Failure> {
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(output);
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let Ok(directory) = OpenOptions::new().read(true).custom_flags(flags).open(output) else {
        return Ok(None);
    };
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(refusal(output, "is being recorded; choose another directory with -o")),
        _ => Ok(Some(directory)),
    }
}

/// Removes what is in a directory.
fn empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Renames a trace; nothing else is ever replaced.
fn move_aside(output: &Path) -> Result<PathBuf, Failure> {
    if !memtrace_trace::is_trace(output) {
        let why = "is not only a trace, so --force leaves it alone; choose another directory with -o";
        return Err(refusal(output, why));
    }
    if is_recorded(output) {
        return Err(refusal(output, "is being recorded; choose another directory with -o"));
    }
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let aside = output.with_file_name(format!(".{name}.{}.replaced", std::process::id()));
    let renamed = |error: io::Error| refusal(output, &format!("cannot be replaced: {error}"));
    fs::rename(output, &aside).map_err(renamed)?;
    Ok(aside)
}

fn refusal(output: &Path, why: &str) -> Failure {
    Failure { code: 125, message: format!("{} {why}", output.display()) }
}
