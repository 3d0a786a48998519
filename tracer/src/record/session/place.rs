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
    /// Where the trace that will be replaced waits.
    earlier: Option<PathBuf>,
    begun: bool,
    /// Held until then: recorders that start together with one directory would clear it for each other.
    _lock: Option<File>,
}

impl Place {
    /// Makes sure that nothing is in the way; with `replace` a trace may be.
    pub fn prepare(output: &Path, replace: bool) -> Result<Place, Failure> {
        let occupied = fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_some());
        let earlier = match (occupied, replace) {
            (false, _) => None,
            (true, true) => Some(move_aside(output)?),
            (true, false) => {
                let advice =
                    if memtrace_trace::is_trace(output) { ", or replace the trace with --force" } else { "" };
                return Err(refusal(
                    output,
                    &format!("exists and is not empty; choose another directory with -o{advice}"),
                ));
            }
        };
        let existed = earlier.is_none() && fs::symlink_metadata(output).is_ok();
        let lock = lock(output)?;
        Ok(Place { output: output.to_owned(), existed, earlier, begun: false, _lock: lock })
    }

    /// The recording has begun: its trace stays, and what it replaces goes.
    pub fn keep(mut self) {
        self.begun = true;
        if let Some(earlier) = self.earlier.take() {
            // It no longer bears its name; all that a failure leaves is a hidden directory.
            let _ = fs::remove_dir_all(earlier);
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
        if let Some(earlier) = &self.earlier {
            let _ = fs::rename(earlier, &self.output);
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
