//! Starts the recorded command as the shell would have, and waits for its end.

use std::ffi::{CString, OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicU32;

use super::descriptors::Limit;
use super::{signals, streams};

/// How the command ended.
#[derive(Debug, Clone, Copy)]
pub struct Ending {
    /// Exit status as a shell gives it: 128 + N for signal N.
    pub code: i32,
    /// The signal, if one killed it.
    pub signal: Option<i32>,
    /// Its largest resident size, or that of a child it waited for (getrusage(2), ru_maxrss).
    pub max_resident_bytes: u64,
    /// Time it ran its own code, with that of children it waited for (getrusage(2), ru_utime).
    pub user_ns: u64,
    /// Time the kernel worked for it (ru_stime).
    pub system_ns: u64,
}

/// Why the command could not be started; the exit status a shell would give.
pub struct NotStarted {
    /// 127: not found; 126: found but not executable.
    pub code: i32,
    /// One sentence.
    pub message: String,
}

/// Starts `command` with our `libraries` preloaded before others and `variables` set; its standard
/// output is standard error if it `prints_to_stderr`.
pub fn start(
    command: &[OsString],
    prints_to_stderr: bool,
    libraries: &[PathBuf],
    variables: &[(&str, &str)],
    sleeping: &'static AtomicU32,
) -> std::result::Result<i32, NotStarted> {
    signals::install_handlers(sleeping);
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    let preload = libraries.iter().map(|library| library.clone().into_os_string()).chain(others);
    let preload = preload.collect::<Vec<_>>().join(OsStr::new(":"));
    let preload = (!preload.is_empty()).then_some(("LD_PRELOAD", preload.as_os_str()));
    let added = preload
        .into_iter()
        .chain(variables.iter().map(|(name, value)| (*name, OsStr::new(*value))))
        .map(|(name, value)| (c_string(name.as_bytes()), c_string(value.as_bytes())))
        .collect::<Vec<_>>();
    let inherited = streams::inherited();
    let descriptors = Limit::raise();
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]);
    // SAFETY: setrlimit(2), signal(2), dup2(2) and close(2) are async-signal-safe; setenv(3) allocates, which glibc's
    // fork(3) sees to in the child. Rust resets SIGPIPE in children and opens what was closed; the
    // command is to get what memtrace itself was started with. (`Command::env` would sort the
    // environment.)
    unsafe {
        child.pre_exec(move || {
            descriptors.restore();
            if inherited.ignores_sigpipe {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            if prints_to_stderr {
                libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO);
            }
            inherited.closed_streams().for_each(|stream| {
                libc::close(stream);
            });
            for (name, value) in &added {
                libc::setenv(name.as_ptr(), value.as_ptr(), 1);
            }
            Ok(())
        });
    }
    match child.spawn() {
        Ok(child) => {
            let pid = child.id() as i32;
            signals::forward_to(pid);
            Ok(pid)
        }
        Err(error) => Err(not_started(Path::new(&command[0]), &error)),
    }
}

/// Why, and what to do.
fn not_started(command: &Path, error: &std::io::Error) -> NotStarted {
    let name = command.display();
    let (code, why) = match error.kind() {
        ErrorKind::NotFound if command.is_file() && !name.to_string().contains('/') => {
            (127, format!("it is not in a directory of PATH; write ./{name}"))
        }
        ErrorKind::NotFound if command.is_file() => {
            (127, "the interpreter that its first line names is not there; name one before it".to_owned())
        }
        ErrorKind::NotFound => (127, "there is no such program; check its name and PATH".to_owned()),
        ErrorKind::PermissionDenied => (126, not_executed(command)),
        _ => (126, error.to_string()),
    };
    NotStarted { code, message: format!("cannot run {name}: {why}") }
}

/// Why a program that was found may not be executed, and what to do.
fn not_executed(command: &Path) -> String {
    match command.metadata() {
        Ok(found) if found.is_dir() => "it is a directory; name a program".into(),
        Ok(found) if found.mode() & 0o111 == 0 => {
            format!("it is not executable; name the program that runs it, e.g. python {}", command.display())
        }
        Ok(_) => "this user, or this file system, does not let it be executed; see its permissions".into(),
        // It is in a folder that is closed to this user, or one of PATH has it or is closed.
        Err(_) => "this user may not execute what has that name; check its name, PATH and permissions".into(),
    }
}

/// Environment strings have no NUL; what follows one would not have reached the command either.
fn c_string(bytes: &[u8]) -> CString {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}

/// The command's ending, if it has ended.
pub fn ending(child: i32) -> Option<Ending> {
    let mut status = 0;
    // SAFETY: all zeroes is a valid rusage; both out-pointers are valid.
    let (result, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child, &mut status, libc::WNOHANG, &mut usage), usage)
    };
    if result != child {
        return None;
    }
    signals::forward_to_none();
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    Some(Ending {
        code: signal.map_or(libc::WEXITSTATUS(status), |signal| 128 + signal),
        signal,
        max_resident_bytes: usage.ru_maxrss as u64 * 1024,
        user_ns: nanoseconds(usage.ru_utime),
        system_ns: nanoseconds(usage.ru_stime),
    })
}

fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}
