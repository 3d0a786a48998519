//! Starting the recorded command as the shell would have, passing signals on, and its end.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use anyhow::{Context, Result};
use object::read::elf::ProgramHeader;

use crate::symbols::Source;

/// How the command ended.
#[derive(Debug, Clone, Copy)]
pub struct Ending {
    /// Exit status as a shell gives it: 128 + N for signal N.
    pub code: i32,
    /// The signal, if one killed it.
    pub signal: Option<i32>,
    /// Its largest resident size, or that of a child it waited for (getrusage(2), ru_maxrss).
    pub max_resident_bytes: u64,
}

/// Why the command could not be started; the exit status a shell would give.
pub struct NotStarted {
    /// 127: not found; 126: found but not executable.
    pub code: i32,
    /// One sentence.
    pub message: String,
}

/// The command's pid; [`UNKNOWN`] while it is being started, [`GONE`] once it was waited for.
static CHILD: AtomicI32 = AtomicI32::new(UNKNOWN);
const UNKNOWN: i32 = 0;
const GONE: i32 = -1;
static SLEEPING: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Starts `command` with our `libraries` preloaded before others and `variables` set.
pub fn start(
    command: &[OsString],
    libraries: &[PathBuf],
    variables: &[(&str, &str)],
    sleeping: &'static AtomicU32,
) -> std::result::Result<i32, NotStarted> {
    CHILD.store(UNKNOWN, Ordering::SeqCst);
    install_handlers(sleeping);
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    let preload = libraries.iter().map(|library| library.clone().into_os_string()).chain(others);
    let preload = preload.collect::<Vec<_>>().join(OsStr::new(":"));
    let added = std::iter::once(("LD_PRELOAD", preload.as_os_str()))
        .chain(variables.iter().map(|(name, value)| (*name, OsStr::new(*value))))
        .map(|(name, value)| (c_string(name.as_bytes()), c_string(value.as_bytes())))
        .collect::<Vec<_>>();
    let (ignored, closed) = (SIGPIPE_WAS_IGNORED.load(Ordering::Relaxed), CLOSED.load(Ordering::Relaxed));
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]);
    // SAFETY: signal(2) and close(2) are async-signal-safe; setenv(3) allocates, which glibc's fork(3) sees to
    // in the child. Rust resets SIGPIPE in children and opens what was closed; the command is to get what memtrace
    // itself was started with. (`Command::env` would sort the environment.)
    unsafe {
        child.pre_exec(move || {
            if ignored {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            (0..3).filter(|stream| closed & (1 << stream) != 0).for_each(|stream| {
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
            CHILD.store(pid, Ordering::SeqCst);
            for early in PASSED_ON.iter().zip(&EARLY).filter(|(_, early)| early.swap(false, Ordering::SeqCst))
            {
                // SAFETY: kill(2) on our own child, which has not been waited for.
                unsafe { libc::kill(pid, *early.0) };
            }
            Ok(pid)
        }
        Err(error) => {
            let name = command[0].display();
            let (code, why) = match error.kind() {
                std::io::ErrorKind::NotFound => (127, "no such command".to_string()),
                std::io::ErrorKind::PermissionDenied => (126, "it is not executable".to_string()),
                _ => (126, error.to_string()),
            };
            Err(NotStarted { code, message: format!("cannot run {name}: {why}") })
        }
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
    CHILD.store(GONE, Ordering::SeqCst);
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    Some(Ending {
        code: signal.map_or(libc::WEXITSTATUS(status), |signal| 128 + signal),
        signal,
        max_resident_bytes: usage.ru_maxrss as u64 * 1024,
    })
}

/// True if a process that was started under this token is alive: a child may not have allocated yet, and then
/// nothing else tells of it.
pub fn others_alive(token: &str) -> bool {
    let looks = (0..LOOKS).find_map(|_| {
        let before = last_pid();
        let found = one_alive(token);
        (found || last_pid() == before).then_some(found)
    });
    looks.unwrap_or(false)
}

/// Whoever /proc lists may have forked and gone before it is looked at, as daemons' parents do, and its child is in the
/// next list. Where others start processes all the time there is no list without that, so looks are counted.
const LOOKS: usize = 8;

/// The pid that was given last (proc_loadavg(5)): as long as it stays nobody has forked.
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

/// True if the process that /proc shows under this pid was started under this token; a zombie was not.
pub fn is_ours(pid: u32, token: &str) -> bool {
    contains(&environment(pid), token)
}

/// True if it was started with an environment that asks for no probe, or not under this token.
pub fn lacks_probe(pid: u32, token: &str) -> bool {
    let environment = environment(pid);
    let asks = contains(&environment, token) && contains(&environment, PROBE);
    !asks && !environment.is_empty()
}

fn contains(environment: &[u8], token: &str) -> bool {
    environment.windows(token.len()).any(|window| window == token.as_bytes())
}

/// The environment that a process was started with. Where the first thread has ended before the others, they know.
fn environment(pid: u32) -> Vec<u8> {
    let mut environment = read(format!("/proc/{pid}/environ").as_ref());
    if environment.is_empty() && has_threads(pid) {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let others = threads.map(|thread| read(&thread.path().join("environ")));
        environment = others.into_iter().find(|environment| !environment.is_empty()).unwrap_or_default();
    }
    environment
}

/// A file of /proc; empty if it cannot be read. Its size is not known, and each call makes the kernel look for the text
/// anew: most are read with one.
fn read(path: &Path) -> Vec<u8> {
    let mut text = Vec::with_capacity(1 << 14);
    let result = File::open(path).and_then(|mut file| file.read_to_end(&mut text));
    result.map_or_else(|_| Vec::new(), |_| text)
}

/// True unless the process has one thread only, as most of those without an environment: kernel threads. The links of
/// its task directory say so (2, and one for each: proc_task_getattr in Linux fs/proc/base.c).
fn has_threads(pid: u32) -> bool {
    const ALONE: u64 = 3;
    std::fs::metadata(format!("/proc/{pid}/task")).is_ok_and(|task| task.nlink() > ALONE)
}

/// The pid under which /proc shows the process that is `pid` in its own namespace (NSpid, proc_pid_status(5)).
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

/// A terminal sends SIGINT and SIGQUIT to the command as well; what is sent to memtrace alone is passed on to
/// it. memtrace itself goes on until the command has ended; a file size limit (SIGXFSZ) is an error of writing. A signal memtrace was started to ignore stays
/// ignored, for the command too (nohup(1)).
fn install_handlers(sleeping: &'static AtomicU32) {
    SLEEPING.store((&raw const *sleeping).cast_mut(), Ordering::Relaxed);
    let handled = [libc::SIGINT, libc::SIGQUIT, libc::SIGCHLD, libc::SIGXFSZ];
    for signal in handled.into_iter().chain(PASSED_ON) {
        // SAFETY: the handler only calls async-signal-safe functions and touches atomics.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut old);
            if old.sa_sigaction == libc::SIG_IGN && signal != libc::SIGCHLD {
                continue;
            }
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = on_signal as *const () as usize;
            libc::sigaction(signal, &new, std::ptr::null_mut());
        }
    }
}

/// Signals that reach memtrace alone and are meant for the command.
const PASSED_ON: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// Which of them came before the child's pid was known: the child may be running already.
static EARLY: [AtomicBool; PASSED_ON.len()] = [const { AtomicBool::new(false) }; PASSED_ON.len()];

/// The last signal that asked the command, and so memtrace, to end; 0 if none did.
static ASKED_TO_END: AtomicI32 = AtomicI32::new(0);

/// The signal by which somebody asked for an end, if one did since memtrace was started.
pub fn interrupted() -> Option<i32> {
    Some(ASKED_TO_END.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

extern "C" fn on_signal(signal: libc::c_int) {
    if [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP].contains(&signal) {
        ASKED_TO_END.store(signal, Ordering::SeqCst);
    }
    if let Some(index) = PASSED_ON.iter().position(|passed_on| *passed_on == signal) {
        let child = CHILD.load(Ordering::SeqCst);
        if child == UNKNOWN {
            EARLY[index].store(true, Ordering::SeqCst);
        } else if child != GONE {
            // SAFETY: kill(2) is async-signal-safe.
            unsafe { libc::kill(child, signal) };
        }
    }
    // Keeps the drain from going to sleep after it looked for the child's end.
    // SAFETY: the word lives as long as the recording, which is as long as the handlers are installed.
    if let Some(sleeping) = unsafe { SLEEPING.load(Ordering::Relaxed).as_ref() } {
        sleeping.store(0, Ordering::Relaxed);
    }
}

/// Leaves signals to the main thread.
pub fn block_signals() {
    // SAFETY: the set lives on the stack.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// One bit for each of stdin, stdout and stderr that memtrace was started without.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Runs before `main`, because the Rust runtime ignores SIGPIPE and opens closed standard streams before
/// `main` is entered.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_BEGINNING: extern "C" fn() = {
    extern "C" fn note() {
        // SAFETY: reads the disposition.
        let old = unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut old);
            old
        };
        SIGPIPE_WAS_IGNORED.store(old.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        for stream in 0..3 {
            // SAFETY: only asks.
            if unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0 {
                CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
            }
        }
    }
    note
};

/// True if no probe can be loaded into a program: it has no dynamic linker, or one that is told to be careful because
/// the program runs as somebody else (ld.so(8)).
pub fn takes_no_probe(program: &Path) -> bool {
    // SAFETY: they cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let becomes_another = std::fs::metadata(program).is_ok_and(|file| {
        file.mode() & libc::S_ISUID != 0 && file.uid() != user
            || file.mode() & libc::S_ISGID != 0 && file.gid() != group
    });
    becomes_another || statically_linked(program)
}

/// True for a 64-bit ELF program without a dynamic linker (PT_INTERP, elf(5)): nothing can be preloaded into it.
pub fn statically_linked(program: &Path) -> bool {
    Source::open(program).is_some_and(|source| {
        source.elf().is_some_and(|elf| match elf {
            object::File::Elf64(elf) => {
                let mut headers = elf.elf_program_headers().iter();
                !headers.any(|header| header.p_type(object::Endianness::Little) == object::elf::PT_INTERP)
            }
            _ => false,
        })
    })
}

/// The file that a command runs: as named, or found in PATH (execvp(3)).
pub fn program_of(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(command)).find(|place| place.is_file())
}

/// Its file name.
const PROBE: &str = "libmemtrace_probe.so";

/// The probe.
pub fn find_probe() -> Result<PathBuf> {
    find_library(PROBE, "memtrace-probe")
}

/// A library to preload: beside the executable, in `../libexec/memtrace` (installed) or `../preload` (a build tree).
pub fn find_library(name: &str, package: &str) -> Result<PathBuf> {
    let executable = std::env::current_exe().context("cannot tell where memtrace is installed")?;
    let directory = executable.parent().context("memtrace has no directory")?;
    let candidates = ["", "../libexec/memtrace", "../preload"].map(|place| directory.join(place).join(name));
    let found = candidates.into_iter().find(|path| path.is_file()).with_context(|| {
        let executable = executable.display();
        format!("{name} is not beside {executable}: install memtrace again, or build it with `cargo build --profile preload -p {package}`")
    })?;
    // The dynamic linker reads the variable as a list, and `..` may lead elsewhere after a chdir.
    Ok(found.canonicalize()?)
}
