//! Which processes belong to a recording: the environment that they were started with names its
//! token.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// File name of the probe, which the environment of a recorded process names for the dynamic
/// linker.
pub const PROBE: &str = "libmemtrace_probe.so";

/// True if no process and no thread has been started after the one with this pid.
pub fn is_last(pid: i32) -> bool {
    last_pid().is_some_and(|last| last == pid.to_string())
}

/// True if a process that was started under this token is alive: a child may not have allocated
/// yet, and then nothing else shows it.
pub fn others_alive(token: &str) -> bool {
    let stable = (0..ATTEMPTS).find_map(|_| {
        let before = last_pid();
        let found = one_alive(token);
        (found || last_pid() == before).then_some(found)
    });
    stable.unwrap_or(false)
}

/// A process that /proc lists may have forked and gone before it is read, as daemons' parents do,
/// and its child is in the next list. Where other programs start processes all the time every list
/// may miss one: attempts are bounded.
const ATTEMPTS: usize = 8;

/// The pid that was given last (proc_loadavg(5)): as long as it stays no process has forked.
fn last_pid() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().last().map(str::to_owned)
}

fn one_alive(token: &str) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else { return false };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let own = std::process::id();
    let mut pids = pids.filter(|pid| *pid != own);
    pids.any(|pid| is_ours(pid, token))
}

/// True if the process that /proc shows under this pid was started under this token; a zombie was
/// not.
pub fn is_ours(pid: u32, token: &str) -> bool {
    contains(&environment(pid), token)
}

/// True if it was started with an environment that loads no probe, or not under this token.
pub fn lacks_probe(pid: u32, token: &str) -> bool {
    let environment = environment(pid);
    let loads = contains(&environment, token) && contains(&environment, PROBE);
    !loads && !environment.is_empty()
}

pub fn contains(environment: &[u8], token: &str) -> bool {
    environment.windows(token.len()).any(|window| window == token.as_bytes())
}

/// The environment that a process was started with; where its first thread has ended before the
/// others, read from one of those.
pub fn environment(pid: u32) -> Vec<u8> {
    let mut environment = read(format!("/proc/{pid}/environ").as_ref());
    if environment.is_empty() && has_threads(pid) {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let others = threads.map(|thread| read(&thread.path().join("environ")));
        environment = others.into_iter().find(|environment| !environment.is_empty()).unwrap_or_default();
    }
    environment
}

/// A file of /proc; empty if it cannot be read. Its size is not known, and each call makes the
/// kernel format the text anew: most are read with one.
fn read(path: &Path) -> Vec<u8> {
    let mut text = Vec::with_capacity(1 << 14);
    let result = File::open(path).and_then(|mut file| file.read_to_end(&mut text));
    result.map_or_else(|_| Vec::new(), |_| text)
}

/// True unless the process has one thread only, as most of those without an environment: kernel
/// threads. The links of its task directory count them (2, and one for each: proc_task_getattr in
/// Linux fs/proc/base.c).
fn has_threads(pid: u32) -> bool {
    const ONE_THREAD: u64 = 3;
    std::fs::metadata(format!("/proc/{pid}/task")).is_ok_and(|task| task.nlink() > ONE_THREAD)
}

/// The pid under which /proc shows the process that is `pid` in its own namespace (NSpid,
/// proc_pid_status(5)).
pub fn shown_pid(pid: u32, token: &str) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").ok()?;
    let mut pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|shown| {
        let status = std::fs::read_to_string(format!("/proc/{shown}/status")).unwrap_or_default();
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        let innermost = ids.split_whitespace().skip(1).last();
        innermost.and_then(|id| id.parse().ok()) == Some(pid) && is_ours(*shown, token)
    })
}
