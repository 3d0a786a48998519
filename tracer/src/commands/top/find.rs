//! Which recording is meant: by the directory of its trace, or by a process id.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use memtrace_wire::handshake::SOCKET_VARIABLE;

use super::recording::{Recording, Watched};
use crate::live_protocol::SOCKET;

/// The directory of the trace that `which` means.
pub fn directory(which: &OsStr) -> Result<PathBuf> {
    let path = PathBuf::from(which);
    match which.to_str().and_then(|text| text.parse::<u32>().ok()) {
        Some(pid) if !path.exists() => of_process(pid),
        _ => Ok(path),
    }
}

/// A recorder is known by what it has open, a recorded process by its environment; one that was
/// attached to, or has another environment by now, is known to its recorder.
fn of_process(pid: u32) -> Result<PathBuf> {
    if !Path::new(&format!("/proc/{pid}")).exists() {
        bail!("there is no process {pid}, and no trace of that name");
    }
    if let Some(directory) = recorded_by(pid) {
        return Ok(directory);
    }
    match std::fs::read(format!("/proc/{pid}/environ")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("process {pid} is another user's: watch it as that user, or as root")
        }
        environment => {
            if let Some(directory) = announced(&environment.unwrap_or_default()) {
                return Ok(directory);
            }
        }
    }
    let recorders: BTreeSet<PathBuf> = processes().filter_map(recorded_by).collect();
    let found = recorders.into_iter().find(|directory| runs_in(pid, directory));
    found.ok_or_else(|| {
        anyhow::anyhow!(
            "process {pid} is not being recorded: start it as memtrace -- COMMAND, or memtrace attach {pid}"
        )
    })
}

/// The trace that this process records: it shares memory with probes, and has a directory open that
/// has a socket.
fn recorded_by(pid: u32) -> Option<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let open: Vec<PathBuf> =
        entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
    let shares = open.iter().any(|path| path.as_os_str().as_bytes().starts_with(b"/memfd:memtrace"));
    let is_trace = |path: &&PathBuf| {
        path.is_absolute()
            && std::fs::symlink_metadata(path.join(SOCKET)).is_ok_and(|file| file.file_type().is_socket())
    };
    open.iter().find(is_trace).filter(|_| shares).cloned()
}

/// What the environment of a recorded process has: `NAME;PATH`, the path that of the socket in the
/// directory.
fn announced(environment: &[u8]) -> Option<PathBuf> {
    let prefix = [SOCKET_VARIABLE.as_bytes(), b"="].concat();
    let value = environment.split(|byte| *byte == 0).find_map(|text| text.strip_prefix(&prefix[..]))?;
    let path = value.splitn(2, |byte| *byte == b';').nth(1)?;
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    path.parent().filter(|directory| directory.is_absolute()).map(Path::to_path_buf)
}

/// True if the recorder there has this process.
fn runs_in(pid: u32, directory: &Path) -> bool {
    const PATIENCE: Duration = Duration::from_secs(2);
    let figures = Recording::open(directory, PATIENCE).and_then(|mut recording| {
        recording.wait_at_most(PATIENCE)?;
        recording.next()
    });
    matches!(figures, Ok(Some(figures)) if figures.processes.iter().any(|process| process.pid == pid))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_recorded_process_names_its_trace() {
        let name = |text: &str| announced(text.as_bytes()).map(|path| path.display().to_string());
        let found = name("A=1\0MEMTRACE_SOCKET=memtrace-77;/tmp/a;b/.socket\0B=2\0");
        assert_eq!(found.as_deref(), Some("/tmp/a;b"));
        for other in
            ["", "MEMTRACE_SOCKET=", "MEMTRACE_SOCKET=x", "XMEMTRACE_SOCKET=a;/b/c", "MEMTRACE_SOCKET=a;b"]
        {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_number_or_is_there_is_a_path() {
        assert_eq!(directory("trace".as_ref()).ok(), Some(PathBuf::from("trace")));
        assert_eq!(directory("-7".as_ref()).ok(), Some(PathBuf::from("-7")));
        let error = directory("4294967295".as_ref()).unwrap_err().to_string();
        assert!(error.starts_with("there is no process 4294967295"), "{error}");
    }
}
